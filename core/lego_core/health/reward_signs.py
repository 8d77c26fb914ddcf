"""Reward curves of runs whose learning goes wrong with nothing lost for good yet, or that lost everything at once.

Pure functions over arrays; warnings only, as in `signs.py`.
"""

from __future__ import annotations

import math

import numpy as np

from lego_core.health.drop import ALIKE, LOW, PEAK_WINDOW, peak_of
from lego_core.health.rolling import Floats, centred_median, noise_of, sd_of_mean
from lego_core.health.signs import Sign

GONE = 0.1
"""Of the peak: what a collapse leaves (`drop.onset`)."""
CLIFF_STEPS, CLIFF_OVER = 3, 2
CLIFF_SIGMAS = 5.0
NEVER_STEPS, NOTHING = 20, 0.005
FLAT_STEPS = 60
FLAT_RISE, FLAT_DOUBT = 0.03, 0.08
"""What is no rise, and the largest rise that noise may hide; half of the level where that is less."""
SOLVED = 0.9
"""A run that earns this much has little room left to rise."""
SWING_STEPS = 20
SWING, SWING_COINS, SWING_LEAST = 2.5, 1.5, 0.1
"""Growth of the standard deviation, against chance, and how large it has to be."""


def cliff(values: Floats) -> Sign | None:
    """The reward went from above half of its peak to below a tenth within two steps, and has stayed there for three:
    what one update, one resume or one broken weight sync does, and no drift."""
    index = np.flatnonzero(np.isfinite(values))
    x = values[index]
    if len(x) < 2 * CLIFF_STEPS + CLIFF_OVER:
        return None
    peak = peak_of(x)
    if not peak or peak <= 0:
        return None
    start = _last_high(x, GONE * peak) + 1
    before, after = x[:start], x[start:]
    if len(after) < CLIFF_STEPS or len(before) < CLIFF_STEPS or before[-CLIFF_OVER:].max() < LOW * peak:
        return None
    level = float(after.mean())
    sd, phi = noise_of(before)
    if peak - level < CLIFF_SIGMAS * sd_of_mean(sd, phi, CLIFF_STEPS):
        return None
    return Sign(value=level, threshold=GONE * peak, start=int(index[start]))


def never(values: Floats) -> Sign | None:
    """After twenty steps hardly anything has been earned."""
    index = np.flatnonzero(np.isfinite(values))
    if len(index) < NEVER_STEPS or (level := float(values[index].mean())) >= NOTHING:
        return None
    return Sign(value=level, threshold=NOTHING, start=int(index[0]))


def flat(values: Floats) -> Sign | None:
    """After sixty steps the reward is where it was at the beginning, and never was elsewhere, though it could rise and
    the noise is small enough for a rise to be seen."""
    index = np.flatnonzero(np.isfinite(values))
    x = values[index]
    if len(x) < FLAT_STEPS or not NOTHING <= x.mean() < SOLVED:
        return None
    third = len(x) // 3
    parts = [float(part.mean()) for part in (x[:third], x[third:-third], x[-third:])]
    sd, phi = noise_of(x)
    doubt = max(FLAT_RISE, 3 * math.sqrt(2) * sd_of_mean(sd, phi, third))
    levels = centred_median(x, PEAK_WINDOW // 2)
    is_seen = doubt <= min(FLAT_DOUBT, parts[0] / 2) and np.ptp(levels) <= 2 * FLAT_DOUBT
    if not is_seen or max(parts) - parts[0] > doubt or parts[0] - parts[2] > doubt:
        return None
    return Sign(value=parts[2], threshold=parts[0] + doubt, start=int(index[0]))


def swinging(values: Floats, graded: Floats) -> Sign | None:
    """The reward swings far more in the last twenty steps than at the beginning, and more than chance over `[n]` rollouts explains."""
    index = np.flatnonzero(np.isfinite(values))
    x = values[index]
    if len(x) < 3 * SWING_STEPS:
        return None
    known = graded[index][np.isfinite(graded[index])]
    count = max(float(np.median(known)), 1.0) if len(known) else 1.0
    recent = x[-SWING_STEPS:]
    level = min(max(float(recent.mean()), 0.0), 1.0)
    coins = ALIKE * math.sqrt(level * (1 - level) / count)
    now, before = noise_of(recent)[0], noise_of(x[: 2 * SWING_STEPS])[0]
    limit = max(SWING * before, SWING_COINS * coins, SWING_LEAST)
    return Sign(value=now, threshold=limit, start=int(index[-SWING_STEPS])) if now > limit else None


def _last_high(values: Floats, limit: float) -> int:
    high = np.flatnonzero(values >= limit)
    return int(high[-1]) if len(high) else -1
