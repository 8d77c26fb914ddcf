"""What people said about rollouts (the paper's fifth stage), kept with the run.

    RUN/review.jsonl    one label a line, appended and never changed; the newest of a rollout holds

Owns the file. Invariants: a label says who, when and why; reading never fails over a broken line; nothing here
changes a run's training data: only a command that leaves tasks out of a pool reads the labels.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from lego_core.store.layout import RunLayout
from lego_harness.errors import InfrastructureError
from lego_harness.text import one_line

LABELS = ("fine", "hacked", "broken_task", "broken_grader", "odd")
BROKEN = ("broken_task", "broken_grader")
"""Labels that say that no reward of the task can be believed."""
MAX_NOTE = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """What a person said of a rollout."""

    rollout: str
    task: str
    label: str
    """One of LABELS."""
    exclude: bool
    """Its task should leave the pool."""
    note: str
    who: str
    time: str
    """UTC, to the second."""


def label_now(rollout: str, task: str, label: str, *, exclude: bool, note: str, who: str) -> Label:
    """A label given now; a note that is too long is cut."""
    return Label(
        rollout=rollout, task=task, label=label, exclude=exclude, note=note[:MAX_NOTE], who=who,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )  # fmt: skip


def add_label(run: Path, label: Label) -> None:
    """Append a label. Raises InfrastructureError if it cannot be written."""
    line = json.dumps(asdict(label), ensure_ascii=True) + "\n"
    path = RunLayout(root=run).labels
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(handle).st_size
            is_torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"  # by who was killed while he wrote
            os.write(handle, b"\n" * is_torn + line.encode())
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise InfrastructureError(f"{path}: the label cannot be written: {error.strerror}") from error


def read_labels(run: Path) -> list[Label]:
    """Every label in order; other lines are passed over."""
    try:
        lines = RunLayout(root=run).labels.read_bytes().splitlines()
    except OSError:
        return []
    return [label for line in lines if (label := parse_label(line)) is not None]


def parse_label(line: bytes) -> Label | None:
    """A line of the file; None if it is not a label."""
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    table = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    texts = {k: table.get(k) for k in ("rollout", "task", "label", "note", "who", "time")}
    if not all(isinstance(text, str) for text in texts.values()) or texts["label"] not in LABELS:
        return None
    return Label(exclude=table.get("exclude") is True, **cast(dict[str, str], texts))


def spoken_against(labels: Iterable[Label]) -> dict[str, str]:
    """Task → why a person wants it out of the pool, by the newest label of each rollout."""
    newest = {label.rollout: label for label in labels}
    return {
        label.task: one_line(f"labelled {label.label} by {label.who}: {label.note or 'no reason given'}")
        for label in newest.values()
        if label.exclude or label.label in BROKEN
    }
