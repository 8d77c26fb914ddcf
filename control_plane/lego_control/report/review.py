"""What a person should look at: rollouts with a reason each, and the labels people gave (the paper's fifth stage).

    RUN/review.jsonl    one label a line, appended and never changed; the newest of a rollout holds

Owns the queue's rules and the label file. Invariants: a label says who, when and why; reading never fails over a broken
line; nothing here changes a run's training data: who excludes tasks from a pool reads the labels.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from lego_control.report.source import Opened, Source
from lego_harness.errors import InfrastructureError
from lego_tui.safe import one_line

LABELS = ("fine", "hacked", "broken_task", "broken_grader", "odd")
OUTLIER = 5.0
"""Robust standard deviations of a logarithm from which on a length is odd."""
MAX_NOTE = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One rollout to look at."""

    rollout: str
    task: str
    reward: float | None
    reasons: tuple[str, ...]
    label: str = ""
    """The newest label; empty while nobody has looked."""


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


def queue(source: Source, labels: Sequence[Label]) -> list[Item]:
    """Rollouts with a reason, most reasons first; those that are labelled last."""
    known = {label.rollout: label.label for label in labels}
    odd_lengths = _odd_lengths(source.opened)
    disagreeing = _disagreeing(source)
    found: list[Item] = []
    for opened in source.opened:
        reasons = tuple(_reasons(opened, odd_lengths, disagreeing))
        if reasons:
            reward = None if math.isnan(opened.entry.reward) else opened.entry.reward
            label = known.get(opened.entry.id, "")
            found.append(
                Item(
                    rollout=opened.entry.id,
                    task=opened.entry.task,
                    reward=reward,
                    reasons=reasons,
                    label=label,
                )
            )
    return sorted(found, key=lambda item: (bool(item.label), -len(item.reasons), item.rollout))


def add_label(run: Path, label: Label) -> None:
    """Append a label. Raises InfrastructureError where it cannot be written."""
    line = json.dumps(asdict(label), ensure_ascii=True) + "\n"
    path = run / "review.jsonl"
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
    """Every label in order; lines that are none are passed over."""
    try:
        lines = (run / "review.jsonl").read_bytes().splitlines()
    except OSError:
        return []
    return [label for line in lines if (label := _label(line)) is not None]


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _label(line: bytes) -> Label | None:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    table = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    texts = {k: table.get(k) for k in ("rollout", "task", "label", "note", "who", "time")}
    if not all(isinstance(text, str) for text in texts.values()) or texts["label"] not in LABELS:
        return None
    return Label(exclude=table.get("exclude") is True, **cast(dict[str, str], texts))


def _reasons(opened: Opened, odd_lengths: set[str], disagreeing: set[str]) -> Iterator[str]:
    for finding in opened.findings:
        if finding.is_recorded or opened.solved:
            yield one_line(f"{finding.what}: {finding.evidence}", 160)
    if opened.entry.id in disagreeing:
        yield "the same change as a sibling's, another reward"
    if opened.entry.id in odd_lengths:
        yield f"odd length: {opened.entry.sampled:,} tokens"


def _odd_lengths(some: Sequence[Opened]) -> set[str]:
    known = [(o.entry.id, math.log(o.entry.sampled)) for o in some if o.entry.sampled > 0]
    if len(known) < 20:
        return set()
    logs = np.array([value for _, value in known])
    middle = float(np.median(logs))
    spread = max(1.4826 * float(np.median(np.abs(logs - middle))), 0.1)
    return {name for name, value in known if abs(value - middle) > OUTLIER * spread}


def _disagreeing(source: Source) -> set[str]:
    by_change: dict[tuple[int, str, str], list[Opened]] = {}
    for opened in source.opened:
        if opened.solved is not None and opened.change:
            entry = opened.entry
            by_change.setdefault((entry.step, entry.group, opened.change), []).append(opened)
    return {
        o.entry.id for some in by_change.values() if len({o.entry.reward for o in some}) > 1 for o in some
    }
