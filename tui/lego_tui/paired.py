"""Solve rates of the tasks that two runs both trained on, as pairs. Pure.

Invariant: every face that compares runs uses these pairs. Tasks are nearly independent; steps are not.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

import numpy as np

from lego_tui.feed.index import Index
from lego_tui.intervals import Z95


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One task."""

    task: str
    first: float
    """Share of the first run's graded rollouts that solved it."""
    second: float

    @property
    def delta(self) -> float:
        return self.second - self.first


@dataclass(frozen=True, kw_only=True, slots=True)
class Paired:
    """At least two tasks."""

    pairs: tuple[Pair, ...]
    """Those that differ most first."""
    mean: float
    """Of the differences, second minus first."""
    error: float
    """Half the width of its 95 % interval."""

    @property
    def num_better(self) -> int:
        return sum(pair.delta > 0 for pair in self.pairs)

    @property
    def num_worse(self) -> int:
        return sum(pair.delta < 0 for pair in self.pairs)

    @property
    def points(self) -> str:
        """Mean difference with its interval, in points."""
        low, high = 100 * (self.mean - self.error), 100 * (self.mean + self.error)
        return f"{100 * self.mean:+.1f} ({low:+.1f} … {high:+.1f})"


def paired(first: dict[str, float], second: dict[str, float]) -> Paired | None:
    """Pair two runs' `task_rates`; None for fewer than two tasks in common."""
    both = sorted(first.keys() & second.keys())
    if len(both) < 2:
        return None
    pairs = [Pair(task=task, first=first[task], second=second[task]) for task in both]
    deltas = [pair.delta for pair in pairs]
    return Paired(
        pairs=tuple(sorted(pairs, key=lambda pair: -abs(pair.delta))),
        mean=statistics.fmean(deltas),
        error=Z95 * statistics.stdev(deltas) / math.sqrt(len(deltas)),
    )


def task_rates(index: Index) -> dict[str, float]:
    """Share of graded training rollouts that solved a task, by task."""
    found = index.by_task()
    count = len(index.tasks.list)
    solved, graded = (np.bincount(found.what, part, count) for part in (found.solved, found.graded))
    return {index.tasks.list[n]: float(solved[n] / graded[n]) for n in np.flatnonzero(graded).tolist()}
