"""Small statistics of noisy, autocorrelated curves. Pure functions of float arrays without NaN."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MAD_TO_SD = 1.4826
"""Standard deviation of a Gaussian over its median absolute deviation."""
LEVEL_HALF = 4
"""A slow level is the median of a value and this many neighbours on each side."""
MAX_PHI = 0.8
"""A stronger measured autocorrelation is a trend, not noise."""


def rolling_median(values: Floats, window: int, least: int) -> Floats:
    """Medians of the last `window` values, or of all so far once there are `least`; `[n − least + 1]`."""
    growing = [float(np.median(values[:end])) for end in range(least, min(window, len(values) + 1))]
    if len(values) < window:
        return np.array(growing, np.float64)
    return np.concatenate([growing, np.median(sliding_window_view(values, window), axis=1)])


def centred_median(values: Floats, half: int) -> Floats:
    """`[n]` median of each value and its neighbours up to `half` away, fewer at the ends."""
    n, width = len(values), 2 * half + 1
    medians = np.empty(n)
    if n >= width:
        medians[half : n - half] = np.median(sliding_window_view(values, width), axis=1)
    for i in range(n) if n < width else (*range(half), *range(n - half, n)):
        medians[i] = np.median(values[max(i - half, 0) : i + half + 1])
    return medians


def noise_of(values: Floats) -> tuple[float, float]:
    """Standard deviation about a slow level, and lag-1 autocorrelation in [0, 0.8].

    The level is a running median, so that neither a trend nor a step in it counts as noise. Of the robust and
    the plain standard deviation the larger: where most steps earn nothing, the robust one sees no noise at all.
    """
    rest = values - centred_median(values, LEVEL_HALF)
    sd = max(MAD_TO_SD * float(np.median(np.abs(rest - np.median(rest)))), float(rest.std()))
    if len(rest) < 4 or not rest.any():
        return sd, 0.0
    centred = rest - rest.mean()
    phi = float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())
    return sd, min(max(phi, 0.0), MAX_PHI)


def sd_of_mean(sd: float, phi: float, count: int) -> float:
    """Standard deviation of the mean of `count` neighbours of an AR(1) series."""
    return sd * math.sqrt((1 + phi) / (1 - phi) / count)


def slope_t(values: Floats) -> float | None:
    """Least-squares slope over its standard error (the paper's t); None below three points or
    where the points lie on a line that is level."""
    n = len(values)
    if n < 3:
        return None
    x = np.arange(n) - (n - 1) / 2
    y = values - values.mean()
    sxx, sxy, syy = float(x @ x), float(x @ y), float(y @ y)
    if syy <= 1e-24 * n * float(np.abs(values).max()) ** 2:  # the same number n times, up to rounding
        return None
    left = max(syy - sxy**2 / sxx, 0.0)
    if left <= 1e-12 * syy:  # all on a line: infinitely significant, which JSON has no number for
        return math.copysign(math.sqrt(1e12 * (n - 2)), sxy)
    return sxy / sxx / math.sqrt(left / (n - 2) / sxx)


def effective_slope_t(values: Floats) -> float | None:
    """`slope_t` as if there were only as many points as independent ones: n(1 − φ)/(1 + φ)."""
    t = slope_t(values)
    if t is None:
        return None
    x = np.arange(len(values), dtype=np.float64)
    rest = values - np.polyval(np.polyfit(x, values, 1), x)
    total = float((rest**2).sum())
    phi = float((rest[1:] * rest[:-1]).sum()) / total if total else 0.0
    phi = min(max(phi + (1 + 3 * phi) / len(values), 0.0), 0.95)  # Kendall's correction of the bias
    return t * math.sqrt((1 - phi) / (1 + phi))
