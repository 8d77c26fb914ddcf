"""The reward fell from its peak and stayed down: the one curve that may stop a run.

Pure functions. A drop must meet all of these conditions, because each one alone also fires on some healthy curve:

    for long      12 of the last 15 steps are below half of the peak     a dip of 11 steps is not a collapse
    now           so is the median of the last five                      a recovery under way is not one
    deep          the mean of the 15 is below 0.35 of the peak           a harder pool is not one
    beyond noise  that mean is 5 standard deviations below the peak      a noisy curve is not one
    beyond luck   so many low steps have a chance below 1 in 100,000     a few groups of tasks that are always or never
                  if steps are low as often as in the 45 before          solved are low together now and then

The peak is the largest running median of 15 steps (of 5 at the beginning) before those 15, so that one lucky step is
no peak; it is still the luckiest of many windows, hence five standard deviations. Noise is measured on the raw curve
with its autocorrelation, and is at least that of as many coin flips. Where a step is only a group or two, its mean
takes few values and no standard deviation says how often the lowest comes; counting low steps does, however alike the
siblings of a group are. Rates on the corpus: `lego_core/health/README.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lego_core.health.chance import at_least
from lego_core.health.rolling import Floats, noise_of, rolling_median, sd_of_mean

WINDOW = 15
LOW_STEPS = 12
RECENT = 5
PEAK_WINDOW = 15
PEAK_LEAST = 5
LOW = 0.5
DEEP = 0.35
SIGMAS = 5.0
SHORT, SIGMAS_SHORT = 10, 6.0
"""Fewer than `SHORT` steps before the drop say little about peak and noise."""
LUCK = 1e-5
PAST = 45
"""Steps before the stretch that say how often a step is low anyway."""
ALIKE = 1.5
"""Siblings of a group are more alike than coins; their mean varies by this factor more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Drop:
    """How far below its peak a curve is."""

    peak: float
    level: float
    """Mean of the window."""
    sigmas: float
    """Standard deviations of that mean below the peak."""
    start: int
    """Index of the first low point of the stretch."""


def peak_of(values: Floats) -> float | None:
    """The best level a curve has held; None before five points."""
    medians = rolling_median(values, PEAK_WINDOW, PEAK_LEAST)
    return float(medians.max()) if len(medians) else None


def robust_drop(rewards: Floats, graded: Floats) -> Drop | None:
    """The drop a curve `[n]` ends in, or None. `graded` `[n]` is the number of rollouts in each mean.

    Points that are NaN do not count; neither do those with less than half of the usual rollouts behind
    them: what survives a failing infrastructure is no sample of the policy.
    """
    index = np.flatnonzero(_is_usable(rewards, graded))
    values = rewards[index]
    history, recent = values[:-WINDOW], values[-WINDOW:]
    if len(values) < PEAK_LEAST + LOW_STEPS:
        return None
    if len(history) < PEAK_LEAST:
        history, recent = values[:PEAK_LEAST], values[PEAK_LEAST:]
    if (recent < LOW * history.max()).sum() < LOW_STEPS:  # saves the medians on nearly every step
        return None
    peak = peak_of(history)
    if peak is None or peak <= 0:
        return None
    is_low = recent < LOW * peak
    level = float(recent.mean())
    if is_low.sum() < LOW_STEPS or np.median(recent[-RECENT:]) >= LOW * peak or level >= DEEP * peak:
        return None
    sigmas = (peak - level) / max(_sd(history, peak, graded[index], len(recent)), 1e-12)
    if sigmas < (SIGMAS if len(history) >= SHORT else SIGMAS_SHORT):
        return None
    start = _start(values, peak)
    if start == len(values) or _by_luck(values < LOW * peak, start) >= LUCK:
        return None
    return Drop(peak=peak, level=level, sigmas=min(sigmas, 1e6), start=int(index[start]))


def _is_usable(rewards: Floats, graded: Floats) -> NDArray[np.bool_]:
    known = graded[np.isfinite(graded)]
    usual = float(np.median(known)) if len(known) else 0.0
    return np.isfinite(rewards) & ~(graded < usual / 2)


def _sd(history: Floats, peak: float, graded: Floats, count: int) -> float:
    sd, phi = noise_of(history)
    known = graded[np.isfinite(graded)]
    num_coins = float(np.median(known)) if len(known) else 1.0
    coins = ALIKE * math.sqrt(max(peak * (1 - peak), 0.0) / max(num_coins, 1.0))
    return sd_of_mean(max(sd, coins), phi, count)


def _by_luck(is_low: NDArray[np.bool_], start: int) -> float:
    """How likely this many low steps from `start` on are, given how often steps were low before."""
    before, stretch = is_low[max(start - PAST, 0) : start], is_low[start:]
    return at_least(int(stretch.sum()), len(stretch), seen=float(before.sum()), among=len(before))


def _start(values: Floats, peak: float) -> int:
    """Index after the last two points in a row above half of the peak, and so after every recovery that began."""
    high = values >= LOW * peak
    pairs = np.flatnonzero(high[1:] & high[:-1])
    return int(pairs[-1]) + 2 if len(pairs) else 0


def onset(rewards: Floats) -> int | None:
    """Index of the first of three steps below a tenth of the peak so far.

    This defines when a collapse began, to measure how late a detector was. It looks ahead, so it is no detector."""
    peaks = np.maximum.accumulate(np.nan_to_num(rewards, nan=-np.inf))
    low = rewards < 0.1 * peaks
    for i in range(len(rewards) - 2):
        if peaks[i] > 0 and low[i : i + 3].all():
            return i
    return None
