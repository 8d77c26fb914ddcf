"""Where everything of a run is, and the small records that only the store knows.

    <runs_dir>/<name>-<time>/
        run.json              recipe, versions, creation time; written once (changes since: lego_core/changes.py)
        steps.jsonl           StepRecord a line          heldout.jsonl   HeldoutRecord a line
        events.jsonl          Event a line: status changes, stages, checkpoints, warnings
        trajectories/         00001.zst … one zstd frame per Trajectory
            index.jsonl       IndexEntry a line, written after its frame
        checkpoints/00012/    the trainer's
        run.log               the core's own log
        exchange/             what processes on several nodes pass to each other; only while they run
        control/              what people asked of the run, a file each: mailbox.py
        writer.lock           locked while somebody writes

Owns names and shapes; opens nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from lego_harness.types import StopReason

FORMAT = 1
"""Version of this layout; a reader refuses a run it does not know."""


class RunStatus(StrEnum):
    """Derived, never stored: a held lock means running, else the last status event decides."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """Stopped by a person, or killed without a word. May be resumed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunInfo:
    """run.json: what was asked for, and with which software."""

    format: int
    created: str
    """ISO 8601 in UTC, microseconds included: runs sort by it."""
    recipe: dict[str, Any]
    versions: dict[str, str]
    """Distribution → version; only what is installed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One line of events.jsonl."""

    time: float
    """Unix seconds."""
    kind: str
    """`started`, `finished`, `failed`, `interrupted`, `stage`, `checkpoint`, `truncated`, `warning`, …"""
    fields: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexEntry:
    """One line of trajectories/index.jsonl: where a trajectory is stored and how it ended."""

    id: str
    file: str
    """Name of the segment inside trajectories/."""
    offset: int
    length: int
    """Bytes of the compressed frame."""
    step: int | None
    """Step it was sampled for; None in an evaluation."""
    task: str
    stop_reason: StopReason
    reward: float | None
    """None when there is no grade."""
    sampled: int
    """Tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunLayout:
    """The paths of one run directory."""

    root: Path

    @property
    def info(self) -> Path:
        return self.root / "run.json"

    @property
    def steps(self) -> Path:
        return self.root / "steps.jsonl"

    @property
    def heldout(self) -> Path:
        return self.root / "heldout.jsonl"

    @property
    def events(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def trajectories(self) -> Path:
        return self.root / "trajectories"

    @property
    def index(self) -> Path:
        return self.trajectories / "index.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def log(self) -> Path:
        return self.root / "run.log"

    @property
    def exchange(self) -> Path:
        return self.root / "exchange"

    @property
    def labels(self) -> Path:
        return self.root / "review.jsonl"

    @property
    def lock(self) -> Path:
        return self.root / "writer.lock"

    def segment(self, number: int) -> Path:
        """Path of a 1-based trajectory segment."""
        return self.trajectories / f"{number:05d}.zst"

    def checkpoint(self, step: int) -> Path:
        """Folder of the checkpoint that commits `step`."""
        return self.checkpoints / f"{step:05d}"

    def committed(self) -> list[Path]:
        """Checkpoint folders, oldest first; unfinished ones have other names."""
        return sorted(path for path in self.checkpoints.glob("*") if path.name.isdigit())
