"""Which lines of steps.jsonl are of the run, and which of an attempt that was thrown away.

    1 … 10 ▣ 11 … 17 ✗        ▣ checkpoint, ✗ killed
              11 12           resumed from 10: these weights have seen 1 … 10, then 11 and 12

The file is append-only, so that both attempts stay in it. Invariant: a line discards what earlier lines said of
its own step and of later ones; the steps that are left rise. For every reader of steps: strict, lenient, indexed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def num_kept(steps: Sequence[int], step: int) -> int:
    """How many of the rising `steps` stay, from the first, when a line of `step` follows them."""
    return bisect_left(steps, step)
