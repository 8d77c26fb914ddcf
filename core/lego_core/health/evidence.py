"""The paper's Table 8 for a run: first five steps, last five steps, t of the slope.

It is reported and never stops a run: checking |t| > 2 at each step calls a flat curve with lag-1
autocorrelation 0.6 a trend in 80 % of all runs. Pure functions.
"""

from __future__ import annotations

import numpy as np

from lego_core.health.findings import Evidence
from lego_core.health.rolling import Floats, slope_t
from lego_core.health.series import Series

STEPS = 5
ROWS = (
    "reward",
    "turns",
    "response_tokens",
    "tokens_per_turn",
    "entropy",
    "kl_loss",
    "pearson_r",
    "grad_norm",
)
"""Rows of Table 8 in its order; `pearson_r` is the rollout–training agreement."""


def table8(series: Series) -> tuple[Evidence, ...]:
    """The evidence at the last step of `series`."""
    return tuple(_row(metric, series.values(metric)) for metric in ROWS)


def _row(metric: str, values: Floats) -> Evidence:
    found = values[np.isfinite(values)]
    return Evidence(
        metric=metric,
        first=float(found[:STEPS].mean()) if len(found) else None,
        last=float(found[-STEPS:].mean()) if len(found) else None,
        t=slope_t(found),
        n=len(found),
    )
