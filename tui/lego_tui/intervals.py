"""How far two runs are apart over their last steps, and how sure that is.

Invariant: every face that compares runs takes the same steps and the same interval. Steps of one run are not
independent: the interval is a lower bound of the doubt.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from lego_tui.feed.run import RunFeed
from lego_tui.metrics import series

LATE = 20
"""Last steps over which means are taken: at most half of the shorter run."""
LEAST = 5
"""Values of each run below which a difference has no interval."""
Z95 = 1.96


def num_late(runs: Sequence[RunFeed]) -> int:
    """How many last steps are compared."""
    return min(LATE, max(min(len(run.steps) for run in runs) // 2, 1))


def late(run: RunFeed, metric: str, count: int) -> list[float]:
    """The finite values among the last `count`."""
    values = series(run, metric)[-count:]
    return values[np.isfinite(values)].tolist()


def difference(a: Sequence[float], b: Sequence[float], *, scale: float = 1, digits: int = 4) -> str:
    """Mean of `b` minus mean of `a` with its 95 % interval, as text; `scale` 100 makes points of shares."""
    if not a or not b:
        return "–"
    delta = statistics.fmean(b) - statistics.fmean(a)
    if min(len(a), len(b)) < LEAST:
        return f"{scale * delta:+.{digits}g}"
    error = Z95 * math.sqrt(statistics.variance(a) / len(a) + statistics.variance(b) / len(b))
    low, high = scale * (delta - error), scale * (delta + error)
    return f"{scale * delta:+.{digits}g} ({low:+.{digits}g} … {high:+.{digits}g})"
