"""What held-out evaluations show that the training reward does not. Pure functions.

Rates are compared in standard deviations of that many coin flips, pooled over evaluations, because a single evaluation
of a few dozen tasks moves by several per cent by chance. Warnings only: evaluations are rare, and late.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lego_core.health.rolling import Floats
from lego_core.health.series import Evaluation
from lego_core.health.signs import RECENT, Sign

LEAST = 4
"""Evaluations below which nothing is compared."""
SIGMAS = 2.0
SIGMAS_FALLEN = 3.0
FALL, RISE = 0.03, 0.1
"""Differences that would matter if they were real."""
LOST = 0.7


def apart(rewards: Floats, heldout: Sequence[Evaluation]) -> Sign | None:
    """The training reward rose by a tenth while the held-out solve rate fell, first third against last: what is
    learned is not the task. `start` is a step."""
    known, reward = _known(heldout), rewards[np.isfinite(rewards)]
    if len(known) < LEAST or len(reward) < 2 * RECENT:
        return None
    third = max(len(known) // 3, 2)
    before, after = known[:third], known[-third:]
    rise = float(reward[-RECENT:].mean() - reward[:RECENT].mean())
    fall = _rate(before) - _rate(after)
    if rise < RISE or fall < max(FALL, SIGMAS * _sd(before, after)):
        return None
    return Sign(value=_rate(after), threshold=_rate(before), start=_since(known, _rate(before) - fall / 2))


def fallen(heldout: Sequence[Evaluation]) -> Sign | None:
    """The last two evaluations are far below the best two in a row before them. `start` is a step."""
    known = _known(heldout)
    if len(known) < LEAST:
        return None
    after = known[-2:]
    best = max((known[i : i + 2] for i in range(len(known) - 3)), key=_rate)
    now, peak = _rate(after), _rate(best)
    if now >= LOST * peak or peak - now < SIGMAS_FALLEN * _sd(best, after):
        return None
    return Sign(value=now, threshold=LOST * peak, start=_since(known, (peak + now) / 2))


def _known(heldout: Sequence[Evaluation]) -> list[Evaluation]:
    return [e for e in heldout if e.n > 0 and math.isfinite(e.solve_rate)]


def _rate(some: Sequence[Evaluation]) -> float:
    return sum(e.solve_rate * e.n for e in some) / sum(e.n for e in some)


def _sd(one: Sequence[Evaluation], other: Sequence[Evaluation]) -> float:
    rate = min(max(_rate([*one, *other]), 0.0), 1.0)
    return math.sqrt(rate * (1 - rate) * (1 / sum(e.n for e in one) + 1 / sum(e.n for e in other)))


def _since(known: Sequence[Evaluation], limit: float) -> int:
    """Step of the first evaluation after the last one that was not below `limit`."""
    high = [i for i, e in enumerate(known) if e.solve_rate >= limit]
    return known[min(high[-1] + 1, len(known) - 1) if high else 0].step
