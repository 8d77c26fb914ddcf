"""Two runs, or two stretches of one: what was set differently, and what came of it."""

from __future__ import annotations

import json
import math
from typing import Any, cast

from lego_control.failures import Refusal
from lego_control.fence import line
from lego_control.run import Run
from lego_control.runs import Runs
from lego_control.schemas import Comparison, Delta
from lego_control.tools.status import last_step
from lego_tui.intervals import apart, mean

METRICS = (
    "reward_mean",
    "entropy",
    "grad_norm",
    "kl_loss",
    "k3",
    "pearson_r",
    "clip_fraction",
    "tokens_per_s",
    "seconds.total",
)
MAX_DIFFERENCES = 60


def compare(
    runs: Runs, a: str, b: str, first_step: int | None = None, last_step_: int | None = None, b_first: int | None = None,
    b_last: int | None = None,
) -> Comparison:  # fmt: skip
    """Means over the given steps, by default the last 20 that both have; `b` has a range of its own if one is given."""
    one, other = runs.get(a), runs.get(b)
    for run in (one, other):
        run.index.refresh("steps", "events")
    end = last_step_ if last_step_ is not None else min(last_step(one), last_step(other))
    start = first_step if first_step is not None else max(end - 19, 1)
    b_range = (b_first if b_first is not None else start, b_last if b_last is not None else end)
    if end < start or b_range[1] < b_range[0]:
        raise Refusal(
            "bad_argument",
            "no step lies in that range",
            f"{a} has {last_step(one)} steps, {b} has {last_step(other)}",
        )
    return Comparison(
        a=a,
        b=b,
        steps=f"{start}-{end} of a, {b_range[0]}-{b_range[1]} of b",
        config=_differences(one.recipe(), other.recipe()),
        deltas=[
            _delta(metric, _values(one, metric, start, end), _values(other, metric, *b_range))
            for metric in METRICS
        ],
        warnings=["steps of one run are not independent: the intervals are a lower bound of the doubt"],
    )


def _values(run: Run, metric: str, first: int, last: int) -> list[float]:
    return [v for _, v in run.index.series(metric, first, last) if v is not None and math.isfinite(v)]


def _delta(metric: str, a: list[float], b: list[float]) -> Delta:
    mean_a, mean_b = (mean(values) if values else None for values in (a, b))
    if mean_a is None or mean_b is None:
        return Delta(metric=metric, a=mean_a, b=mean_b, delta=None, low=None, high=None)
    delta, error = apart(a, b)
    low, high = (None, None) if error is None else (delta - error, delta + error)
    return Delta(metric=metric, a=mean_a, b=mean_b, **_finite(delta=delta, low=low, high=high))


def _finite(**values: float | None) -> dict[str, float | None]:
    return {name: v if v is not None and math.isfinite(v) else None for name, v in values.items()}


def _differences(a: dict[str, Any], b: dict[str, Any]) -> dict[str, list[str]]:
    one, other = _flat(a), _flat(b)
    keys = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
    return {
        line(key, 80): [line(one.get(key, "(absent)"), 120), line(other.get(key, "(absent)"), 120)]
        for key in keys[:MAX_DIFFERENCES]
    }


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(cast(dict[str, Any], value), f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = json.dumps(value)
    return flat
