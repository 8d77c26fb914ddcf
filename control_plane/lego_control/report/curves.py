"""Parts made from the step records: curves, agreement, routes, the schedule, the verdict."""

from __future__ import annotations

import numpy as np

from lego_control.report.parts import Figure, Part, figure, lines, percent, table
from lego_control.report.source import Source
from lego_core.health.findings import number
from lego_tui.feed.steps import Series
from lego_tui.health import findings, level, verdict
from lego_tui.metrics import series


def summary(source: Source) -> Part:
    """What the detectors say, first of all."""
    run = source.feed
    found = [(level(f), f.line) for f in findings(run)]
    causes = [(h.name, h.text, h.next_check) for h in run.diagnosis.hypotheses]
    notes = [("note", text) for text in (*run.diagnosis.data_quality, run.newer, run.reason) if text]
    if run.num_broken or source.num_broken:
        notes.append(("note", source.unread))
    return Part(
        id="summary",
        title=f"Verdict: {verdict(run)}",
        says=f"{run.status}, {len(run.steps)} of {run.total_steps or '?'} steps, {len(source.trained):,} training "
        f"rollouts, {len(source.opened):,} of them opened for this report.",
        tables=(
            table(("level", "finding"), [*found, *notes] or [("–", "nothing stands out")]),
            *([table(("what may be behind it", "", "next"), causes)] if causes else []),
        ),
    )


def training(source: Source) -> Part:
    """Figure 3."""
    run = source.feed
    figures = (
        _rewards(source),
        _over_steps(source, {"policy entropy": series(run, "entropy")}, "entropy"),
        _over_steps(source, {"response length": series(run, "tokens per rollout")}, "tokens"),
    )
    return Part(
        id="fig3",
        title="Training curves (Figure 3)",
        figures=tuple(f for f in figures if f.curves),
        missing="" if len(run.steps) else "steps.jsonl has no step yet",
    )


def alignment(source: Source) -> Part:
    """Table 3."""
    steps = source.feed.steps
    r, r_logp = (_median(steps.series(name)) for name in ("pearson_r", "pearson_r_logp"))
    small = (steps.series(name) for name in ("k3", "rollout_gap.p50", "rollout_gap.p90", "rollout_gap.p99"))
    is_there = bool(np.isfinite(r))
    row = (f"{r:.5f}", _or_dash(r_logp, ".5f"), *(_or_dash(1e3 * _median(values), ".3g") for values in small))
    return Part(
        id="table3",
        title="Rollout-to-training alignment (Table 3)",
        says="Medians over the steps that trained, of probabilities and of log-probabilities. The last columns are of "
        "|mean Δlogp| of each trajectory.",
        tables=(
            table(("Pearson r", "r of logp", "KL (k3) ×10⁻³", "|mean Δlogp| ×10⁻³ p50", "p90", "p99"), [row]),
        )
        if is_there
        else (),
        missing="" if is_there else "a step that trained: without one nothing is compared",
    )  # fmt: skip


def replay(source: Source) -> Part:
    """Table 7."""
    steps = source.feed.steps
    names = ("pearson_r", "mean_abs_dp", "expert_overlap", "top1_agreement", "routing_coverage")
    values = [_or_dash(_median(steps.series(name)), ".4f") for name in names]
    is_there = np.isfinite(steps.series("expert_overlap")).any()
    return Part(
        id="table7",
        title="Routing replay (Table 7)",
        says="Medians over steps. Aligned runs of the paper: overlap 0.996, top-1 0.985.",
        tables=(table(("Pearson r", "mean |Δp|", "expert overlap", "top-1 agreement", "coverage"), [values]),)
        if is_there
        else (),
        missing="" if is_there else "a mixture-of-experts policy with routes replayed",
    )


def evidence(source: Source) -> Part:
    """Table 8."""
    rows = [
        (e.metric, number(e.first), number(e.last), number(e.t), e.n) for e in source.feed.diagnosis.evidence
    ]
    return Part(
        id="table8",
        title="First five steps against the last five (Table 8)",
        says="t is the least-squares slope over its standard error, all steps; |t| < 2 is noise. Reported, never a rule.",
        tables=(table(("metric", "first five", "last five", "t", "steps"), rows),),
    )  # fmt: skip


def schedule(source: Source) -> Part:
    """Figure 9."""
    steps = source.feed.steps
    names = [n for n in steps.names if n.startswith("seconds.") and n != "seconds.total"]
    curves = {n.removeprefix("seconds."): tuple(np.nan_to_num(steps.series(n)).tolist()) for n in names}
    drawn = figure("stack", steps.steps, curves, "step", "wall-clock seconds")
    total = {name: float(np.sum(values)) for name, values in curves.items()}
    whole = sum(total.values())
    return Part(
        id="fig9",
        title="Schedule: where a step's time goes (Figure 9)",
        figures=(drawn,) if curves else (),
        tables=(table(("stage", "seconds", "share"), [(n, t, percent(t / whole)) for n, t in total.items()]),)
        if whole
        else (),
        missing="" if curves else "a recorded step",
    )


def _rewards(source: Source) -> Figure:
    """Both rates at the steps at which they were measured: an evaluation may come before the first step."""
    run = source.feed
    x = sorted({*run.steps.steps, *run.heldout.steps})
    curves = {
        "training reward": [run.steps.at(step, "reward_mean") for step in x],
        "held-out solve rate": [run.heldout.at(step, "solve_rate") for step in x],
    }
    return lines(x, curves, "step", "reward")


def _over_steps(source: Source, curves: dict[str, Series], y: str) -> Figure:
    return lines(source.feed.steps.steps, {n: v.tolist() for n, v in curves.items()}, "step", y)


def _median(values: Series) -> float:
    finite = values[np.isfinite(values)]
    return float(np.quantile(finite, 0.5)) if len(finite) else np.nan


def _or_dash(value: float, form: str) -> str:
    """A dash for what an older release did not measure."""
    return format(value, form) if np.isfinite(value) else "–"
