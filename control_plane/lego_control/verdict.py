"""What the detectors of `lego_core.health` say about a run: one word, or all of it.

Reads the index, not the step records: thousands of them in a fraction of a second. Invariant: numbers, names and
sentences of ours only (law 9).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from lego_control.runs import Run, Runs
from lego_control.schemas import Diagnosis, Evidence, Hypothesis, Signal
from lego_core.config import WatchdogPolicy, parse_recipe
from lego_core.health.diagnose import diagnose
from lego_core.health.series import Series, make_series
from lego_core.types import Acted, StepRecord
from lego_harness.errors import UsageError

NEXT = [
    "metrics_query: the metrics named above, around `since`",
    "trajectories_search: those steps, sort worst; then trajectory_read",
    "rewards_audit: whether the reward itself is odd",
]
_NESTED = ("masked", "dropped", "seconds", "acted")
_EMPTY: dict[str, Any] = {
    field.name: 0 if field.type in ("int", "float") else {} if field.type.startswith("dict") else None
    for field in dataclasses.fields(StepRecord)
}


def verdict(run: Run) -> str:
    """healthy, watch, collapsed or unknown; the index must be fresh."""
    return run.once_per_step("verdict", lambda: diagnose(make_run_series(run), policy(run)).verdict.value)


def run_diagnose(runs: Runs, run: str, as_of_step: int | None = None) -> Diagnosis:
    """Everything the detectors say, at the last step or at an earlier one."""
    found = runs.get(run)
    found.index.refresh("steps", "events")
    series = make_run_series(found)
    told = diagnose(series if as_of_step is None else series.upto(as_of_step), policy(found))
    return Diagnosis(
        run=run,
        verdict=told.verdict.value,
        in_grace=told.in_grace,
        signals=[
            Signal(
                metric=f.metric,
                detector=f.detector,
                layer=f.layer.value,
                value=_finite(f.value),
                threshold=_finite(f.threshold),
                since=f.since,
                text=f.text,
            )
            for f in told.findings
        ],
        hypotheses=[
            Hypothesis(name=h.name, text=h.text, evidence=list(h.evidence), next_check=h.next_check)
            for h in told.hypotheses
        ],
        paper_stat=[
            Evidence(metric=e.metric, first=_finite(e.first), last=_finite(e.last), t=_finite(e.t), n=e.n)
            for e in told.evidence
        ],
        data_quality=list(told.data_quality),
        next_tools=NEXT if told.findings else [],
        as_of_step=told.as_of_step,
        stale_s=found.stale_s(),
    )


def policy(run: Run) -> WatchdogPolicy:
    """The one the run was started with, or the default where this version cannot read it."""
    try:
        return parse_recipe(run.recipe()).watchdog
    except UsageError:
        return WatchdogPolicy()


def make_run_series(run: Run) -> Series:
    """The series of an indexed run."""
    flat: dict[int, dict[str, Any]] = {}
    for key, step, value in run.index.rows("SELECT key, step, value FROM metric ORDER BY step"):
        flat.setdefault(step, {})[key] = float(value) if isinstance(value, str) else value
    return make_series([_record(step, values) for step, values in flat.items()], _resumed(run))


def _record(step: int, flat: dict[str, Any]) -> StepRecord:
    """As much of a step record as was indexed; what is missing is empty."""
    nested: dict[str, dict[str, Any]] = {name: {} for name in _NESTED}
    values = dict(_EMPTY)
    for key, value in flat.items():
        name, dot, part = key.partition(".")
        if not dot and name in values:
            values[name] = value if value is not None or values[name] is None else 0
        elif name in nested:
            nested[name][part] = value or 0
    acted = nested.pop("acted")
    values.update(nested, step=step, trained_rollouts=())
    values["acted"] = _acted(acted) if acted else None
    return StepRecord(**values)


def _acted(found: dict[str, Any]) -> Acted:
    values: dict[str, Any] = {field.name: found.get(field.name, 0) for field in dataclasses.fields(Acted)}
    values["stop_reasons"] = {}  # too deep for the index; no detector reads it
    return Acted(**values)


def _resumed(run: Run) -> list[int]:
    """The first step behind each resume."""
    steps: list[int] = []
    committed = 0
    for kind, step, fields in run.index.rows(
        "SELECT kind, step, fields FROM event WHERE kind IN ('started', 'checkpoint') ORDER BY seq"
    ):
        if kind == "checkpoint":
            committed = step or committed
        elif '"resumed"' in fields:
            steps.append(committed + 1)
    return steps


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 6)
