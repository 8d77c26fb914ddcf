"""What no learning run does. Pure functions over arrays; each one is a reason to stop a run.

A rate has to hold for `STEPS` steps in a row, and the run has to have been better before: a run whose set-up
truncates nearly everything, or that has not earned anything yet, is misconfigured or young, not collapsed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lego_core.health.chance import at_least
from lego_core.health.drop import ALIKE, LOW, LUCK, PAST, peak_of
from lego_core.health.rolling import Floats
from lego_core.health.series import Column

STEPS = 6
GONE_STEPS, GONE = 4, 0.1
"""Fewer steps say it where nothing can be read and next to nothing of the best level is earned."""
STUCK_STEPS = 10
RATE = 0.95
MOST = 0.5
USUAL = 0.5
"""A rate that was above this before comes from the set-up of the run."""
NEARLY = 0.9
"""A rate that was above this before proves nothing when it reaches 95 %, whatever the reward does."""
HELD = 0.8
"""Share of the best level so far: a run that still earns this much has not lost its skill."""
CHANCE = 1e-4
"""A stretch without any reward counts as chance unless it is less likely than this; for groups without variance it is `LUCK`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Breach:
    """An invariant that does not hold at the end of the arrays."""

    value: float
    threshold: float
    start: int
    """Index of its first step."""


def non_finite(column: Column) -> Breach | None:
    """The last measurement is NaN or infinite."""
    measured = np.flatnonzero(~np.isnan(column.values) | column.is_broken)
    if not len(measured) or not column.is_broken[measured[-1]]:
        return None
    fine = measured[~column.is_broken[measured]]
    start = measured[np.searchsorted(measured, fine[-1]) + 1] if len(fine) else measured[0]
    return Breach(value=float("nan"), threshold=0.0, start=int(start))


def saturated(rates: Floats, rewards: Floats) -> Breach | None:
    """A share `[n]` in [0, 1] of at least 95 % for six measured steps that was below one half before.

    If it never was, rewards must have been twice as high before. A run that earns as much as ever has found another
    way to work and is no breach; neither is one whose share is always nearly that high."""
    index = np.flatnonzero(np.isfinite(rates))
    start = _stretch(rates[index] >= RATE)
    if len(index) - start < STEPS:
        return None
    first, before = int(index[start]), rates[index[:start]]
    if len(before) >= STEPS and np.median(before) >= NEARLY:
        return None
    is_new = _was_usually_low(before) and not _earns(rewards, first)
    if not (is_new or _fell(rewards, first)):
        return None
    return Breach(value=float(rates[index[start:]].mean()), threshold=RATE, start=first)


def form_gone(malformed: Floats, rewards: Floats) -> Breach | None:
    """Share `[n]` of unreadable calls at least 95 % for four measured steps in which less than a tenth of the best
    level before is earned: no policy that has worked comes back from there by itself, and no choice of tasks
    makes it look so."""
    index = np.flatnonzero(np.isfinite(malformed))
    start = _stretch(malformed[index] >= RATE)
    if len(index) - start < GONE_STEPS:
        return None
    first = int(index[start])
    share = _of_peak(rewards, first)
    if share is None or share >= GONE:
        return None
    return Breach(value=float(malformed[index[start:]].mean()), threshold=RATE, start=first)


def dominating(shares: Floats) -> Breach | None:
    """One repeated token dominates half of the rollouts for six measured steps; no policy starts like that."""
    index = np.flatnonzero(np.isfinite(shares))
    start = _stretch(shares[index] >= MOST)
    if len(index) - start < STEPS:
        return None
    return Breach(value=float(shares[index[start:]].mean()), threshold=MOST, start=int(index[start]))


def no_signal(zero_variance: Floats, rewards: Floats, graded: Floats, groups: Floats) -> Breach | None:
    """Groups `[n]` share without variance at least 95 % for six steps while rewards fell below half of
    their peak, for longer than chance explains; or for ten steps, whatever they did before, while less than
    half of the rewards are earned. Groups that are solved by everybody are no breach; neither are few groups
    of tasks that are solved always or never, which lack variance together now and then. `groups` `[n]` each
    step's count; NaN where nobody counted."""
    index = np.flatnonzero(np.isfinite(zero_variance) & np.isfinite(rewards))
    start = _stretch(zero_variance[index] >= RATE)
    length = len(index) - start
    if length < STEPS or not (zero_variance[index[:start]] < RATE).any():
        return None
    first = int(index[start])
    if _by_luck(zero_variance[index], groups[index], start) > LUCK:
        return None
    reward = float(rewards[index[start:]].mean())
    if _fell(rewards, first):
        if _chance(rewards[:first], graded[index[start:]]) > CHANCE:
            return None
    elif length < STUCK_STEPS or reward >= 0.5 or reward == 0:
        return None
    return Breach(value=float(zero_variance[index[start:]].mean()), threshold=RATE, start=first)


def _was_usually_low(before: Floats) -> bool:
    return len(before) >= STEPS and bool(np.median(before) < USUAL)


def _stretch(holds: NDArray[np.bool_]) -> int:
    """Where the run of True at the end begins."""
    false = np.flatnonzero(~holds)
    return int(false[-1]) + 1 if len(false) else 0


def _fell(rewards: Floats, start: int) -> bool:
    """Whether rewards from `start` on are below half of the best level before."""
    share = _of_peak(rewards, start)
    return share is not None and share < LOW


def _earns(rewards: Floats, start: int) -> bool:
    """Whether rewards from `start` on are about as good as the best level before."""
    share = _of_peak(rewards, start)
    return share is not None and share >= HELD


def _of_peak(rewards: Floats, start: int) -> float | None:
    """Mean reward from `start` on as a share of the best level before; None where one of them is not known or 0."""
    before, after = rewards[:start], rewards[start:]
    peak = peak_of(before[np.isfinite(before)])
    after = after[np.isfinite(after)]
    return float(after.mean()) / peak if peak and len(after) else None


def _by_luck(zero_variance: Floats, groups: Floats, start: int) -> float:
    """How likely it is that every group from `start` on lacks variance, if groups do so as often as in the steps
    before; 0 where groups were not counted."""
    past = slice(max(start - PAST, 0), start)
    flat, known, count = (
        float(np.nansum(some)) for some in (zero_variance[past] * groups[past], groups[past], groups[start:])
    )
    return at_least(round(count), round(count), seen=flat, among=known) if count else 0.0


def _chance(before: Floats, graded: Floats) -> float:
    """How likely it is that none of that many rollouts earns anything at half of the peak."""
    peak = peak_of(before[np.isfinite(before)]) or 0.0
    return float((1 - min(peak, 1.0) / 2) ** (np.nansum(graded) / ALIKE**2))
