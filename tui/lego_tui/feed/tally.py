"""Counting rollouts by step and by one of their columns. Pure.

Rollouts of a group mostly follow each other, and so do those of a step: equal neighbours are summed first and only the
sums are sorted, so that 320,000 rollouts take a few milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """`[p]` pairs that occur, in order of `what`, then `step`; evaluations are left out."""

    what: Ints
    step: Ints
    graded: Ints
    solved: Ints
    ungraded: Ints


def tally(what: Ints, step: Ints, reward: NDArray[np.float64]) -> Tally:
    """Count `[n]` rollouts; a negative step is an evaluation, a reward that is no number is no grade."""
    after = np.maximum(step, -1) + 1
    size = int(after.max(initial=0)) + 1
    key = what * size + after
    begins = np.flatnonzero(np.diff(key, prepend=-1))
    pairs, place = np.unique(key[begins], return_inverse=True)
    whats, steps = np.divmod(pairs, size)
    is_graded, trains = np.isfinite(reward), steps > 0

    def count(of: NDArray[np.bool_]) -> Ints:
        runs = np.add.reduceat(of, begins, dtype=np.int64) if len(begins) else np.zeros(0)
        return np.bincount(place, runs, len(pairs)).astype(np.int64)[trains]

    return Tally(
        what=whats[trains],
        step=steps[trains] - 1,
        graded=count(is_graded),
        solved=count(is_graded & (reward >= 1)),
        ungraded=count(~is_graded),
    )
