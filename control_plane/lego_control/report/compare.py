"""Runs laid over each other: what was set differently, what came of it, and on which tasks.

The intervals over steps are `lego_tui.intervals`'; tasks that both runs met are,
nearly, and are compared in pairs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from lego_control.report.parts import Part, lines, percent, table
from lego_control.report.source import solved
from lego_tui.differences import differences
from lego_tui.feed.index import EVALUATION
from lego_tui.feed.run import RunFeed
from lego_tui.health import verdict
from lego_tui.intervals import Z95, difference, late, mean, num_late
from lego_tui.metrics import series

METRICS = (
    "reward_mean", "heldout", "entropy", "kl_loss", "grad_norm", "pearson_r", "tokens per rollout", "turns per rollout",
    "malformed share", "ungraded share", "zero-variance share", "seconds.total",
)  # fmt: skip
DRAWN = ("reward_mean", "heldout", "entropy", "tokens per rollout")
MAX_TASKS = 20


def parts(runs: Sequence[RunFeed]) -> list[Part]:
    """The comparison, as parts of a report."""
    return [
        _runs(runs),
        _config(runs),
        _curves(runs),
        _metrics(runs),
        *(_tasks(runs[0], b) for b in runs[1:]),
    ]


def _runs(runs: Sequence[RunFeed]) -> Part:
    rows = [(letter, r.name, r.status, verdict(r), f"{len(r.steps)}/{r.total_steps or '?'}", r.created[:16]) for letter, r in zip("ABCDEFGH", runs, strict=False)]  # fmt: skip
    return Part(
        id="runs",
        title="Runs",
        tables=(table(("", "run", "status", "looks", "steps", "made"), rows),),
    )


def _config(runs: Sequence[RunFeed]) -> Part:
    rows = [(key, *values) for key, values in differences(runs)]
    return Part(
        id="config",
        title="Set differently",
        tables=(table(("key", *_letters(runs)), rows),) if rows else (),
        missing="" if rows else "a difference between the recipes",
    )


def _curves(runs: Sequence[RunFeed]) -> Part:
    steps = sorted(set[int]().union(*(r.steps.steps for r in runs)))
    figures = [lines(steps, {f"{letter} {r.name[:24]}": _at(r, name, steps) for letter, r in zip("ABCDEFGH", runs, strict=False)}, "step", name) for name in DRAWN]  # fmt: skip
    shown = tuple(figure for figure in figures if figure.curves)
    return Part(
        id="curves",
        title="Over the steps",
        figures=shown,
        missing="" if shown else "a step that was recorded",
    )


def _at(run: RunFeed, name: str, steps: Sequence[int]) -> list[float]:
    known = dict(zip(run.steps.steps, series(run, name).tolist(), strict=False))
    return [known.get(step, math.nan) for step in steps]


def _metrics(runs: Sequence[RunFeed]) -> Part:
    count = num_late(runs)
    rows: list[tuple[str, ...]] = []
    for name in METRICS:
        found = [late(run, name, count) for run in runs]
        if any(found):
            means = [f"{mean(values):.4g}" if values else "–" for values in found]
            rows.append((name, *means, *(difference(found[0], other) for other in found[1:])))
    headers = ("metric", *_letters(runs), *(f"{letter} − A (95 %)" for letter in _letters(runs)[1:]))
    return Part(
        id="metrics",
        title=f"Mean of the last {count} steps",
        says="Steps of one run are not independent: the intervals are a lower bound of the doubt.",
        tables=(table(headers, rows),) if rows else (),
        missing="" if rows else "steps of both runs",
    )


def _tasks(a: RunFeed, b: RunFeed) -> Part:
    """Solve rates of the tasks both trained on, as pairs."""
    rates = [_rates(run) for run in (a, b)]
    both = sorted(rates[0].keys() & rates[1].keys())
    title = f"Tasks that {a.name} and {b.name} both met"
    if len(both) < 2:
        return Part(id="tasks", title=title, missing="two tasks that both runs graded")
    deltas = [(statistics.fmean(rates[1][t]) - statistics.fmean(rates[0][t]), t) for t in both]
    middle = statistics.fmean(d for d, _ in deltas)
    error = Z95 * statistics.stdev(d for d, _ in deltas) / math.sqrt(len(deltas))
    ups, downs = (sum(sign * d > 0 for d, _ in deltas) for sign in (1, -1))
    moved = sorted(deltas, key=lambda item: -abs(item[0]))[:MAX_TASKS]
    rows = [(t, percent(statistics.fmean(rates[0][t])), percent(statistics.fmean(rates[1][t])), f"{100 * d:+.1f}") for d, t in moved]  # fmt: skip
    return Part(
        id="tasks",
        title=title,
        says=f"Mean paired difference of {len(both)} tasks, second minus first: {100 * middle:+.1f} points "
        f"(95 %: {100 * (middle - error):+.1f} … {100 * (middle + error):+.1f}); {ups} better, {downs} worse. "
        "Those that differ most:",
        tables=(table(("task", "first", "second", "points"), rows),),
    )


def _rates(run: RunFeed) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in range(len(run.index)):
        entry = run.index.entry(row)
        is_solved = solved(entry)
        if is_solved is not None and entry.step != EVALUATION:
            found.setdefault(entry.task, []).append(float(is_solved))
    return found


def _letters(runs: Sequence[RunFeed]) -> tuple[str, ...]:
    return tuple("ABCDEFGH"[: len(runs)])
