"""The GRPO advantage: a rollout's reward against its group's graded siblings (law 4).

Over rollouts, never over samples or tokens; a failed rollout is absent from the baseline, not a
zero in it (law 5). Pure function.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

EPSILON = 1e-6
"""Added to the standard deviation, as in GRPO's implementations."""


def group_advantages(rewards: Sequence[float], *, divide_by_std: bool) -> NDArray[np.float64]:
    """`[G]` advantages of the graded rollouts of one group.

    (r − mean) / (std + 1e-6) with the unbiased std, or r − mean. All zero for a group of one and
    for one without variance: there is nothing to compare.
    """
    values = np.asarray(rewards, np.float64)
    if len(values) < 2 or np.ptp(values) == 0:
        return np.zeros_like(values)
    centred = values - values.mean()
    return centred / (values.std(ddof=1) + EPSILON) if divide_by_std else centred
