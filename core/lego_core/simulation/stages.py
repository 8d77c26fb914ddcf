"""How long the stages of a rollout take: distributions given by a few of their quantiles.

Between two quantiles the logarithm of the duration is linear in the normal score of its rank. Below the median and
beyond p99 the slope is that between the median and p90. The step from p90 to p99 is the rise from the usual to the
exceptional (a retry, a full queue); continuing with *that* slope would give Table 4's verification a mean of 92 s,
where the paper's is 35.9. The quantiles of a log-normal give that log-normal.

Owns the paper's Table 4. Invariant: a rollout's duration is a function of its id and a seed, whatever
else is simulated, so that two schedules are compared on the same rollouts.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from lego_harness.rollout import RolloutSpec

_NORMAL = NormalDist()
_Z90, _Z99 = _NORMAL.inv_cdf(0.9), _NORMAL.inv_cdf(0.99)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """One stage's duration in seconds by quantile."""

    p50: float
    p90: float
    p99: float

    def duration_s(self, rank: float) -> float:
        """Duration of the rollout that is slower than a share of `rank`, in (0, 1), of all rollouts."""
        z = _NORMAL.inv_cdf(rank)
        usual = math.log(self.p90 / self.p50) / _Z90
        rise = math.log(self.p99 / self.p90) / (_Z99 - _Z90)
        if z < _Z90:
            return self.p50 * math.exp(usual * z)
        if z < _Z99:
            return self.p90 * math.exp(rise * (z - _Z90))
        return self.p99 * math.exp(usual * (z - _Z99))


TABLE_4 = {
    "sandbox set-up": Stage(p50=7.7, p90=41.8, p99=275.2),
    "agent set-up": Stage(p50=4.0, p90=4.8, p99=8.4),
    "agent execution": Stage(p50=708.4, p90=1604.3, p99=2801.1),
    "verification": Stage(p50=4.1, p90=29.6, p99=928.5),
    "other": Stage(p50=8.1, p90=12.3, p99=965.5),
}
"""The paper's 3,699 OpenHands training rollouts (arXiv 2608.17393, Table 4)."""
LONGEST_S = 4800.0
"""A rollout is not simulated longer than this: the 3,600 s that its recipe gives the agent, and 1,200 s
around it."""


def rollout_durations(seed: int, stages: Sequence[Stage]) -> Callable[[RolloutSpec], float]:
    """Duration of a rollout by its spec: the sum of its stages, drawn independently."""

    def duration_s(spec: RolloutSpec) -> float:
        draw = random.Random(f"{seed}/{spec.id}")
        total = sum(stage.duration_s(min(max(draw.random(), 1e-9), 1 - 1e-9)) for stage in stages)
        return min(total, LONGEST_S)

    return duration_s
