"""Counting rollouts by two of their columns. Pure.

Rollouts of a group mostly follow each other, and so do those of a step: what is equal in a row is summed first, and
only the sums are sorted, so that 320,000 rollouts take some milliseconds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def tally(first: Ints, second: Ints, *counted: NDArray[np.bool_]) -> tuple[Ints, Ints, list[Ints]]:
    """Every pair that occurs in `[n]` columns of numbers from 0 on, in order; how many of each `counted` it has."""
    if not len(first):
        return first, second, [np.zeros(0, np.int64) for _ in counted]
    size = int(second.max()) + 1
    key = first * size + second
    begins = np.flatnonzero(np.diff(key, prepend=-1))
    pairs, place = np.unique(key[begins], return_inverse=True)
    sums = [np.add.reduceat(what, begins, dtype=np.int64) for what in counted]
    whole = [np.bincount(place, part, len(pairs)).astype(np.int64) for part in sums]
    return *np.divmod(pairs, size), whole
