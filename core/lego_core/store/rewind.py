"""Which lines of steps.jsonl belong to the run, and which to an attempt that was discarded.

    1 … 10 ▣ 11 … 17 ✗        ▣ checkpoint, ✗ killed
              11 12           resumed from 10: these weights have seen 1 … 10, then 11 and 12

The file is append-only, so both attempts stay in it. Invariant: a line discards earlier lines of its own step and of
later ones; the steps that are left rise. Used by every reader of steps: strict, lenient, indexed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def num_kept(steps: Sequence[int], step: int) -> int:
    """How many of the rising `steps`, counted from the first, stay when a line of `step` follows them."""
    return bisect_left(steps, step)
