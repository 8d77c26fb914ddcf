"""Reads a run directory that is finished, broken off or still being written.

Invariants (law 8): reading takes no lock and writes nothing, so it cannot slow or stop a trainer; a
torn last line or frame is held back until it is complete. A complete line that is wrong is an error
that names the file and the line. Each call looks at what was added since the last one, so that a
face may ask several times a second.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Generic, TypeVar

import zstandard

from lego_core.changes import changed
from lego_core.config import Recipe
from lego_core.recipe_file import parse_recipe
from lego_core.store.json_records import decode
from lego_core.store.layout import FORMAT, Event, IndexEntry, RunInfo, RunLayout, RunStatus
from lego_core.store.lock import is_locked
from lego_core.store.rewind import num_kept
from lego_core.types import HeldoutRecord, StepRecord
from lego_harness.errors import InfrastructureError, UsageError
from lego_harness.types import Trajectory

T = TypeVar("T")
SEGMENT_NAME = re.compile(r"\d{5}\.zst")
MAX_TRAJECTORY_BYTES = 4 * 2**30
"""Decompressed size above which a frame is considered broken, not a trajectory."""


class RunReader:
    """One run, looked at from outside."""

    def __init__(self, run_dir: Path) -> None:
        self.layout = RunLayout(root=run_dir)
        self._steps = _Lines(self.layout.steps, StepRecord)
        self._heldout = _Lines(self.layout.heldout, HeldoutRecord)
        self._events = _Lines(self.layout.events, Event)
        self._index = _Lines(self.layout.index, IndexEntry)

    def info(self) -> RunInfo:
        """run.json. Raises UsageError if the folder is not a run, InfrastructureError if it is broken."""
        path = self.layout.info
        try:
            info = decode(RunInfo, path.read_bytes())
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UsageError(
                f"{self.layout.root} is no run: it has no run.json; expected a folder made by lego train"
            ) from error
        except (OSError, ValueError) as error:
            raise InfrastructureError(f"{path}: cannot be read: {error}") from error
        if info.format != FORMAT:
            raise UsageError(
                f"{path}: layout {info.format}, expected {FORMAT}: read it with the release that wrote it"
            )
        return info

    def recipe(self) -> Recipe:
        """The recipe that holds: the one the run was started with, and what resumes have changed since."""
        started = (event.fields for event in self.events() if event.kind == "started")
        return parse_recipe(changed(self.info().recipe, started), source=str(self.layout.info))

    def status(self) -> RunStatus:
        """Running while a writer lives; else what it last said, and interrupted if it said nothing."""
        if is_locked(self.layout.lock):
            return RunStatus.RUNNING
        last = self.last_status_event()
        return RunStatus(last.kind) if last and last.kind != "started" else RunStatus.INTERRUPTED

    def last_status_event(self) -> Event | None:
        """The newest of started, finished, failed, interrupted; its fields hold `pid` and `reason`."""
        kinds = {"started", RunStatus.FINISHED, RunStatus.FAILED, RunStatus.INTERRUPTED}
        return next((event for event in reversed(self.events()) if event.kind in kinds), None)

    def steps(self) -> tuple[StepRecord, ...]:
        """By step; without those that a resume threw away (`rewind.py`)."""
        steps: list[int] = []
        kept: list[StepRecord] = []
        for record in self._steps.read():
            n = num_kept(steps, record.step)
            steps[n:], kept[n:] = [record.step], [record]
        return tuple(kept)

    def heldout(self) -> tuple[HeldoutRecord, ...]:
        """By step; if an evaluation was repeated, the later record."""
        by_step = {record.step: record for record in self._heldout.read()}
        return tuple(by_step[step] for step in sorted(by_step))

    def events(self) -> tuple[Event, ...]:
        """Everything that happened, in order."""
        return tuple(self._events.read())

    def trajectory_index(self) -> tuple[IndexEntry, ...]:
        """The stored trajectories in order of recording; last ones whose frame is incomplete wait."""
        index = self._index.read()
        whole = len(index)
        while whole and not self._is_whole(index[whole - 1], whole):
            whole -= 1
        return tuple(index[:whole])

    def trajectory(self, trajectory_id: str) -> Trajectory:
        """One stored trajectory, arrays included. Raises UsageError when there is none of that id."""
        for entry in self.trajectory_index():
            if entry.id == trajectory_id:
                return self.load(entry)
        raise UsageError(
            f"{self.layout.root} holds no trajectory {trajectory_id!r}; lego show lists the steps"
        )

    def load(self, entry: IndexEntry) -> Trajectory:
        """The trajectory an index entry points at. Raises InfrastructureError when its frame is broken."""
        path = self.layout.trajectories / Path(entry.file).name
        try:
            with path.open("rb") as file:
                file.seek(entry.offset)
                frame = file.read(entry.length)
            if zstandard.frame_content_size(frame) > MAX_TRAJECTORY_BYTES:
                raise ValueError(f"claims to unpack to more than {MAX_TRAJECTORY_BYTES} bytes")
            trajectory = decode(Trajectory, zstandard.ZstdDecompressor().decompress(frame))
        except (OSError, ValueError, zstandard.ZstdError) as error:
            raise InfrastructureError(f"{path}: frame of {entry.id} at {entry.offset}: {error}") from error
        if trajectory.id != entry.id:
            raise InfrastructureError(
                f"{path}: frame at {entry.offset} holds {trajectory.id}, not {entry.id}"
            )
        return trajectory

    def _is_whole(self, entry: IndexEntry, line: int) -> bool:
        if not SEGMENT_NAME.fullmatch(entry.file) or entry.offset < 0 or entry.length <= 0:
            raise InfrastructureError(
                f"{self.layout.index}:{line}: points at {entry.length} bytes at {entry.offset} of {entry.file!r}, "
                "expected a frame in a segment such as 00001.zst"
            )
        path = self.layout.trajectories / entry.file
        return path.exists() and entry.offset + entry.length <= path.stat().st_size


class _Lines(Generic[T]):
    """The records of one JSONL file, read on from where the last read ended."""

    def __init__(self, path: Path, kind: type[T]) -> None:
        self._path, self._kind = path, kind
        self._offset = 0
        self._records: list[T] = []

    def read(self) -> list[T]:
        for line in self._new_lines():
            self._records.append(self._parse(line))
            self._offset += len(line)
        return self._records

    def _new_lines(self) -> list[bytes]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InfrastructureError(f"{self._path}: cannot be read: {error.strerror}") from error
        return [line + b"\n" for line in data.split(b"\n")[:-1]]

    def _parse(self, line: bytes) -> T:
        try:
            return decode(self._kind, line)
        except ValueError as error:
            raise InfrastructureError(f"{self._path}:{len(self._records) + 1}: {error}") from error


def newest_run(runs_dir: Path) -> Path:
    """The run created last. Raises UsageError when there is none; folders that are not runs are passed over."""
    found: list[tuple[str, Path]] = []
    for path in runs_dir.glob("*/run.json"):
        try:
            found.append((RunReader(path.parent).info().created, path.parent))
        except (UsageError, InfrastructureError):
            continue
    if not found:
        raise UsageError(f"no run in {runs_dir}; start one with: lego quickstart")
    return max(found)[1]
