"""How far apart two runs are over their last steps, and how certain that is.

Invariant: every face that compares runs takes the same steps and the same interval. Steps of one run are not
independent, so the interval is a lower bound of the uncertainty.
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
_LARGE = 1e100


def num_late(runs: Sequence[RunFeed]) -> int:
    """How many last steps are compared."""
    return min(LATE, max(min(len(run.steps) for run in runs) // 2, 1))


def late(run: RunFeed, metric: str, count: int) -> list[float]:
    """The finite values among the last `count`."""
    values = series(run, metric)[-count:]
    return values[np.isfinite(values)].tolist()


def mean(values: Sequence[float]) -> float:
    """Of at least one value, also where their sum is larger than a float can be."""
    unit = _unit(values)
    return unit * statistics.fmean(value / unit for value in values)


def apart(a: Sequence[float], b: Sequence[float]) -> tuple[float, float | None]:
    """Mean of `b` minus mean of `a`, and half the width of its 95 % interval; None for too few values."""
    delta = mean(b) - mean(a)
    if min(len(a), len(b)) < LEAST:
        return delta, None
    unit = _unit([*a, *b])
    parts = (statistics.variance(value / unit for value in values) / len(values) for values in (a, b))
    return delta, unit * Z95 * math.sqrt(sum(parts))


def difference(a: Sequence[float], b: Sequence[float], *, scale: float = 1, digits: int = 4) -> str:
    """The same as text; `scale` 100 makes points of shares."""
    if not a or not b:
        return "–"
    delta, error = apart(a, b)
    if error is None:
        return f"{scale * delta:+.{digits}g}"
    low, high = scale * (delta - error), scale * (delta + error)
    return f"{scale * delta:+.{digits}g} ({low:+.{digits}g} … {high:+.{digits}g})"


def _unit(values: Sequence[float]) -> float:
    """What large values are counted in, so that neither their sum nor their squares overflow."""
    largest = max(map(abs, values))
    return largest if largest > _LARGE else 1.0
