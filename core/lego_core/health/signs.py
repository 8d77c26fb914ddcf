"""What is worth a look and never stops a run. Pure functions over arrays, each with its reason.

All of them describe the end of the arrays: a warning that no longer holds is gone. Values are compared with
the run's own past (its first ten measured steps, or the twenty before the last five), because no absolute
number suits every model; where the paper or a peer gives one, it is in the table of `diagnose.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lego_core.health.rolling import MAD_TO_SD, Floats, effective_slope_t, noise_of

RECENT = 5
FIRST = 10
"""Measured steps that say how a run was at the beginning."""
PAST = 20
"""Measured steps before the last five that say how it was just now."""
FEW = 40
"""Groups of which one can say what share of them is so."""
SLOPE_STEPS = 40
SLOPE_T = -3.0
PAGE_HINKLEY_SLACK = 0.5
PAGE_HINKLEY_LIMIT = 15.0
"""In standard deviations of the curve."""
SPIKE = 6.0
"""Robust standard deviations of the logarithm."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """A warning that holds at the end of the arrays."""

    value: float
    threshold: float
    start: int


def above(values: Floats, limit: float) -> Sign | None:
    """Median of the last five measured steps above `limit`."""
    return _beyond(values, limit, sign=1)


def below(values: Floats, limit: float) -> Sign | None:
    """Median of the last five measured steps below `limit`."""
    return _beyond(values, limit, sign=-1)


def mostly(shares: Floats, counts: Floats, limit: float) -> Sign | None:
    """Share of all that were counted `[n]` in the last steps above `limit`: five steps, or as many as it takes to count
    forty, since a step of one or two groups is either all or none."""
    index = np.flatnonzero(np.isfinite(shares))
    known = np.nan_to_num(counts[index], nan=FEW)
    behind = np.cumsum(known[::-1])
    length = max(RECENT, int(np.searchsorted(behind, FEW)) + 1)
    if length > len(index):
        return None
    weights = known[-length:]
    level = float((shares[index[-length:]] * weights).sum() / max(weights.sum(), 1.0))
    if level <= limit:
        return None
    return Sign(value=level, threshold=limit, start=_since(index, shares[index] > limit))


def _beyond(values: Floats, limit: float, sign: int) -> Sign | None:
    index = np.flatnonzero(np.isfinite(values))
    if len(index) < RECENT:
        return None
    level = float(np.median(values[index[-RECENT:]]))
    if sign * (level - limit) <= 0:
        return None
    return Sign(value=level, threshold=limit, start=_since(index, sign * (values[index] - limit) > 0))


def grown(values: Floats, factor: float, least: float = 0.0) -> Sign | None:
    """Median of the last five steps more than `factor` times that of the first ten, and more than `least`."""
    start = _first_level(values)
    return above(values, max(factor * start, least)) if start is not None and max(start, least) > 0 else None


def shrunk(values: Floats, factor: float) -> Sign | None:
    """Median of the last five steps less than 1/`factor` of that of the first ten."""
    start = _first_level(values)
    return below(values, start / factor) if start is not None and start > 0 else None


def surged(values: Floats, factor: float, least: float) -> Sign | None:
    """Median of the last five steps more than `factor` times that of the twenty before them, and more than `least`: for
    what grows from nothing in every run, and slowly."""
    found = values[np.isfinite(values)]
    if len(found) < FIRST + RECENT:
        return None
    return above(values, max(factor * float(np.median(found[-PAST - RECENT : -RECENT])), least))


def _first_level(values: Floats) -> float | None:
    found = values[np.isfinite(values)]
    return float(np.median(found[:FIRST])) if len(found) >= FIRST + RECENT else None


def spike(values: Floats) -> Sign | None:
    """The last value of a positive metric is far above the twenty before it, on a logarithmic scale."""
    index = np.flatnonzero(np.isfinite(values) & (values > 0))
    if len(index) < FIRST + 1:
        return None
    logs = np.log(values[index])
    past = logs[-PAST - 1 : -1]
    spread = max(MAD_TO_SD * float(np.median(np.abs(past - np.median(past)))), 0.25)
    limit = float(np.median(past)) + SPIKE * spread
    if logs[-1] <= limit:
        return None
    return Sign(value=float(values[index[-1]]), threshold=math.exp(limit), start=int(index[-1]))


def falling(values: Floats) -> Sign | None:
    """Slope over the last forty steps, t with the effective number of points: slow decay."""
    index = np.flatnonzero(np.isfinite(values))[-SLOPE_STEPS:]
    t = effective_slope_t(values[index]) if len(index) == SLOPE_STEPS else None
    return Sign(value=t, threshold=SLOPE_T, start=int(index[0])) if t is not None and t < SLOPE_T else None


def page_hinkley(values: Floats) -> Sign | None:
    """Page's test for a downward change of the mean, in units of the curve's own noise: quick on cliffs,
    and wrong on too many flat curves to stop one (E. S. Page, Biometrika 41, 1954)."""
    index = np.flatnonzero(np.isfinite(values))
    if len(index) < 2 * FIRST:
        return None
    x = values[index]
    sd, phi = noise_of(x)
    unit = max(sd, 0.02) * math.sqrt((1 + phi) / (1 - phi))
    means = np.cumsum(x) / np.arange(1, len(x) + 1)
    sums = np.cumsum((means - x) / unit - PAGE_HINKLEY_SLACK)
    depth = float(sums[-1] - sums.min())
    if depth <= PAGE_HINKLEY_LIMIT:
        return None
    start = min(int(np.argmin(sums)) + 1, len(index) - 1)
    return Sign(value=depth, threshold=PAGE_HINKLEY_LIMIT, start=int(index[start]))


def _since(index: NDArray[np.intp], holds: NDArray[np.bool_]) -> int:
    """First step of the last stretch in which the condition mostly held: gaps of one or two do not end it."""
    start = len(holds) - 1
    misses = 0
    for i in range(len(holds) - 1, -1, -1):
        misses = 0 if holds[i] else misses + 1
        if misses > 2:
            break
        if holds[i]:
            start = i
    return int(index[start])
