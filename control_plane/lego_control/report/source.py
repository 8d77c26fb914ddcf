"""A run, read once for a report: its columns, and a bounded sample of its rollouts.

Owns which rollouts are opened (evenly spaced, as many of the first third as of the last) and what is kept of each: a
few hundred bytes, not its tokens. Lenient: what cannot be read is reported as a complaint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from lego_tui.actions import LETTERS
from lego_tui.audit import Finding, audit
from lego_tui.behaviours.table9 import Behaviour, behaviour_of
from lego_tui.feed.details import digest
from lego_tui.feed.index import EVALUATION, Entry
from lego_tui.feed.run import RunFeed
from lego_tui.feed.trajectory import Rollout

MAX_OPENED = 1200
"""How many training rollouts are opened, and as many evaluation rollouts."""
LARGE = 16 * 2**20
"""A rollout with at least this many packed bytes is not opened."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """What is kept of a rollout."""

    entry: Entry
    epoch: int
    behaviour: Behaviour
    findings: tuple[Finding, ...]
    timings: dict[str, float]
    strip: str
    """A letter for each turn."""
    reasoning: float
    """Share of reasoning in the characters that the assistant wrote; NaN if it wrote none."""
    written: int
    """Those characters."""
    change: str
    """Digest of the patch; empty without one."""

    @property
    def solved(self) -> bool | None:
        return solved(self.entry)


class Source:
    """One run and its sample."""

    def __init__(self, root: Path) -> None:
        self.feed = RunFeed(root)
        self.feed.read_all()
        index = self.feed.index
        every = [index.entry(row) for row in range(len(index))]
        steps = set(self.feed.steps.steps)
        self.trained = [entry for entry in every if entry.step in steps]
        self.evaluated = [entry for entry in every if entry.step == EVALUATION]
        self.num_broken = 0
        self.opened = self._open(self.trained)
        self.opened_evaluations = self._open(self.evaluated)

    @property
    def unread(self) -> str:
        """What could not be read, in a sentence; empty if everything was."""
        return self.feed.unread(self.num_broken)

    def load(self, entry: Entry) -> Rollout:
        """A rollout as a whole."""
        return self.feed.load(entry)

    def ends(self) -> tuple[list[Opened], list[Opened]]:
        """The opened rollouts of the first and of the last third of the steps."""
        first, last = self.thirds()
        return (
            [o for o in self.opened if o.entry.step <= first],
            [o for o in self.opened if o.entry.step >= last],
        )

    def thirds(self) -> tuple[int, int]:
        """Last step of the first third, first step of the last one."""
        steps = sorted(self.feed.steps.steps) or [0]
        third = max(len(steps) // 3, 1)
        return steps[third - 1], steps[-third]

    def groups(self, entries: Iterable[Entry]) -> list[list[Entry]]:
        """Graded siblings, by step and group."""
        found: dict[tuple[int, str], list[Entry]] = {}
        for entry in entries:
            if solved(entry) is not None:
                found.setdefault((entry.step, entry.group), []).append(entry)
        return list(found.values())

    def open(self, entry: Entry) -> Opened | None:
        """What is kept of a rollout; None if it cannot be read."""
        rollout = self.load(entry) if entry.length < LARGE else None
        return None if rollout is None or rollout.complaint else _opened(entry, rollout)

    def _open(self, entries: Sequence[Entry]) -> list[Opened]:
        count = min(len(entries), MAX_OPENED)
        rows = [round(place) for place in np.linspace(0, len(entries) - 1, count)] if count else list[int]()
        found: list[Opened] = []
        for row in rows:
            opened = self.open(entries[row])
            if opened is None:
                self.num_broken += 1
            else:
                found.append(opened)
        return found


def solved(entry: Entry) -> bool | None:
    """Whether a rollout solved its task; None without a grade."""
    return None if math.isnan(entry.reward) else entry.reward >= 1


def _opened(entry: Entry, rollout: Rollout) -> Opened:
    done = rollout.actions
    reasoning, written = _written(rollout.messages)
    is_completed = rollout.stop_reason == "completed"
    return Opened(
        entry=entry,
        epoch=rollout.epoch,
        behaviour=behaviour_of(rollout.messages, harness=rollout.harness, is_completed=is_completed),
        findings=tuple(audit(rollout, done)),
        timings=rollout.timings,
        strip="".join(LETTERS[action.kind] for action in done[:200]),
        reasoning=reasoning / written if written else math.nan,
        written=written,
        change=digest(rollout.patch),
    )


def _written(messages: Sequence[dict[str, Any]]) -> tuple[int, int]:
    thought = said = 0
    for message in messages:
        if message.get("role") == "assistant":
            thought += len(str(message.get("reasoning_content") or message.get("reasoning") or ""))
            said += len(str(message.get("content") or ""))
            calls = message.get("tool_calls")
            said += sum(len(str(call)) for call in cast(list[Any], calls)) if isinstance(calls, list) else 0
    return thought, thought + said
