"""`lego check` and `lego gate`: runs in, a report out."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lego_control.ci.gate import MIN_TASKS, Comparison, by_task, compare, decide, unpaired, words
from lego_control.ci.outcome import Outcome, Report, Status
from lego_control.ci.publish import Outputs, publish
from lego_core.config import Limit, WatchdogPolicy
from lego_core.health.backtest import backtest
from lego_core.health.diagnose import check_limit, is_silent
from lego_core.health.findings import Diagnosis, Verdict
from lego_core.health.of_run import diagnose_run
from lego_core.health.policy import effective_policy, load_policy
from lego_core.health.series import Series, read_series
from lego_core.store import RunReader
from lego_core.store.json_records import to_json


def check_runs(runs: Sequence[Path], policy: Path | None, *, is_backtest: bool, wanted: Outputs) -> int:
    """Judge each run by the policy file, or by its own policy; returns the exit code."""
    given = load_policy(policy) if policy else None
    outcomes: list[Outcome] = []
    is_collapsed = False
    for run in runs:
        reader = RunReader(run)
        chosen = given or effective_policy(run, reader.recipe().watchdog)
        one = _backtest if is_backtest else _check
        made, collapsed = one(reader, chosen)
        outcomes += made
        is_collapsed |= collapsed
    title = "backtest" if is_backtest else "check"
    source = {"policy": str(policy) if policy else "the run's own"}
    return publish(
        Report(title=title, outcomes=tuple(outcomes), properties=source, is_collapsed=is_collapsed), wanted
    )


def _check(reader: RunReader, policy: WatchdogPolicy) -> tuple[list[Outcome], bool]:
    started = time.monotonic()
    series, diagnosis = read_series(reader), diagnose_run(reader, policy)
    name, seconds = reader.layout.root.name, time.monotonic() - started
    health = Outcome(
        name=f"{name}: health",
        status=_STATUS[diagnosis.verdict],
        seconds=seconds,
        evidence=_evidence(diagnosis),
        remedy=diagnosis.hypotheses[0].next_check if diagnosis.hypotheses else "",
    )
    limits = [_limit(name, series, limit) for limit in policy.limits]
    return [health, *limits], diagnosis.verdict is Verdict.COLLAPSED


_STATUS = {
    Verdict.HEALTHY: Status.PASSED,
    Verdict.WATCH: Status.PASSED,
    Verdict.COLLAPSED: Status.FAILED,
    Verdict.UNKNOWN: Status.ERROR,
}


def _evidence(diagnosis: Diagnosis) -> str:
    told = "; ".join(f.text for f in (diagnosis.stop_reasons or diagnosis.findings))
    return f"{diagnosis.verdict.value} at step {diagnosis.as_of_step}" + (f": {told}" if told else "")


def _limit(run: str, series: Series, limit: Limit) -> Outcome:
    bounds = " and ".join(
        f"{word} {bound:g}"
        for word, bound in (("at least", limit.min), ("at most", limit.max))
        if bound is not None
    )
    finding = check_limit(series, limit)
    if is_silent(series, limit.metric, limit.steps):
        was_measured = bool(len(series)) and series.columns[limit.metric].num_measured > 0
        status, seen = Status.ERROR, "no value" if was_measured else "never measured"
    elif finding is None:
        status, seen = Status.PASSED, "kept"
    else:
        status, seen = Status.FAILED, f"{finding.value:.4g}"
    return Outcome(
        name=f"{run}: {limit.metric}",
        status=status,
        seconds=0.0,
        evidence=f"{seen}, expected {bounds} over the last {limit.steps} steps",
        remedy="" if status is Status.PASSED else f"lego diagnose {run}",
    )


def _backtest(reader: RunReader, policy: WatchdogPolicy) -> tuple[list[Outcome], bool]:
    started = time.monotonic()
    result = backtest(read_series(reader), policy)
    stopped = result.stop_step is not None
    told = "; ".join(f.text for f in result.reasons)
    outcome = Outcome(
        name=reader.layout.root.name,
        status=Status.FAILED if stopped else Status.PASSED,
        seconds=time.monotonic() - started,
        evidence=(
            f"would have been stopped behind step {result.stop_step} of {result.num_steps}: {told}"
            if stopped
            else f"{result.num_steps} steps, would have gone on to its end"
        ),
    )
    return [outcome], stopped


def _more(comparison: Comparison) -> str:
    if comparison.num_tasks < MIN_TASKS:
        return "compare runs that were evaluated on the same held-out tasks"
    return "more tasks or more rollouts a task"


def gate_runs(
    candidate: Path, baseline: Path, *, metric: str, min_effect: float, confidence: float, wanted: Outputs
) -> int:
    """Compare two runs; the exit code."""
    started = time.monotonic()
    ours, theirs = by_task(RunReader(candidate), metric), by_task(RunReader(baseline), metric)
    comparison = compare(ours, theirs, confidence=confidence)
    status = decide(comparison, min_effect)
    alone = unpaired(ours, theirs)
    outcome = Outcome(
        name=f"{metric} by at least {min_effect:g}",
        status=status,
        seconds=time.monotonic() - started,
        evidence=("inconclusive: " if status is Status.ERROR else "")
        + words(comparison, confidence)
        + (f"; {len(alone)} tasks have no partner" if alone else ""),
        remedy=_more(comparison) if status is Status.ERROR else "",
    )
    properties = {"candidate": str(candidate), "baseline": str(baseline), "confidence": f"{confidence:g}"}
    numbers: dict[str, Any] = {
        key: value if not isinstance(value, float) or math.isfinite(value) else None
        for key, value in to_json(comparison).items()
        if not isinstance(value, str)
    }
    decision = {Status.PASSED: "passed", Status.FAILED: "failed", Status.ERROR: "inconclusive"}[status]
    extra = {"decision": decision, "comparison": numbers}
    return publish(Report(title="gate", outcomes=(outcome,), properties=properties), wanted, extra)
