"""What the detectors of `lego_core.health` say about a run: one word, or all of it.

Reads the index, not the step records: thousands of them in a fraction of a second. Invariant: numbers, names and
sentences of ours only (law 9).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from lego_control.measured import measured_so_far
from lego_control.run import Run
from lego_control.runs import Runs
from lego_control.schemas import Diagnosis, Evidence, Hypothesis, Signal
from lego_core.config import WatchdogPolicy
from lego_core.health.diagnose import diagnose
from lego_core.health.findings import Diagnosis as Diagnosed
from lego_core.health.of_run import with_heartbeat
from lego_core.health.policy import effective_policy
from lego_core.health.series import Evaluation, Series, from_rows
from lego_core.health.watchdog import HEARTBEAT
from lego_core.recipe_file import parse_recipe
from lego_harness.errors import UsageError

NEXT = [
    "metrics_query: the metrics named above, around `since`",
    "trajectories_search: those steps, sort worst; then trajectory_read",
    "rewards_audit: whether the reward itself is odd",
]


def verdict(run: Run) -> str:
    """healthy, watch, collapsed or unknown; the index must be fresh."""
    return run.once_per_step("verdict", lambda: _now(run, make_run_series(run)).verdict.value)


def run_diagnose(runs: Runs, run: str, as_of_step: int | None = None) -> Diagnosis:
    """Everything the detectors say, as of the last step or an earlier one."""
    found = runs.get(run)
    found.index.refresh("steps", "heldout", "events")
    series = make_run_series(found)
    told = _now(found, series) if as_of_step is None else diagnose(series.upto(as_of_step), policy(found))
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


def _now(run: Run, series: Series) -> Diagnosed:
    """The diagnosis at the last step, and whether the watchdog has looked at that step."""
    heard = run.index.rows(
        "SELECT step FROM event WHERE kind = ? AND step IS NOT NULL ORDER BY seq DESC LIMIT 1", (HEARTBEAT,)
    )
    return with_heartbeat(diagnose(series, policy(run)), int(heard[0][0]) if heard else None)


def policy(run: Run) -> WatchdogPolicy:
    """The policy that holds, or the default if this version cannot read it."""
    try:
        registered = parse_recipe(run.recipe()).watchdog
    except UsageError:
        registered = WatchdogPolicy()
    return effective_policy(run.layout.root, registered)


def make_run_series(run: Run) -> Series:
    """The series of an indexed run."""
    measured = measured_so_far(run)
    return from_rows(measured.steps, measured.rows, _resumed(run), _heldout(run))


def _heldout(run: Run) -> Iterator[Evaluation]:
    flat: dict[int, dict[str, float]] = {}
    for key, step, value in run.index.rows("SELECT key, step, value FROM heldout ORDER BY step"):
        if value is not None:
            flat.setdefault(step, {})[key] = float(value)
    for step, values in flat.items():
        n = _finite(values.get("rates.tasks", values.get("n")))
        yield Evaluation(step=step, solve_rate=values.get("solve_rate", math.nan), n=int(n or 0))


def _resumed(run: Run) -> list[int]:
    """The first step after each resume."""
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
