"""Runs compared: what was set differently, what came of it, and on which tasks.

Steps of one run are not independent, so intervals over steps (`lego_tui.intervals`) understate the doubt. Tasks nearly
are, so the tasks that two runs both trained on are compared in pairs (`lego_tui.paired`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from lego_control.report.parts import Part, lines, percent, table
from lego_tui.differences import differences
from lego_tui.feed.run import RunFeed
from lego_tui.health import verdict
from lego_tui.intervals import difference, late, mean, num_late
from lego_tui.metrics import series
from lego_tui.paired import paired, task_rates

METRICS = (
    "reward_mean", "heldout", "entropy", "kl_loss", "grad_norm", "pearson_r", "tokens per rollout", "turns per rollout",
    "malformed share", "ungraded share", "zero-variance share", "seconds.total",
)  # fmt: skip
DRAWN = ("reward_mean", "heldout", "entropy", "tokens per rollout")
MAX_TASKS = 20
_LETTERS = "ABCDEFGH"
"""The runs' letters in tables; `lego compare` takes at most this many."""


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
    rows = [
        (letter, r.name, r.status, verdict(r), f"{len(r.steps)}/{r.total_steps or '?'}", r.created[:16])
        for letter, r in _lettered(runs)
    ]
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
    names = {f"{letter} {run.name[:24]}": run for letter, run in _lettered(runs)}
    figures = (
        lines(steps, {name: _at(run, metric, steps) for name, run in names.items()}, "step", metric)
        for metric in DRAWN
    )
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
    """Solve rates of the tasks that both trained on, as pairs."""
    found = paired(task_rates(a.index), task_rates(b.index))
    title = f"Tasks that {a.name} and {b.name} both met"
    if found is None:
        return Part(id="tasks", title=title, missing="two tasks that both runs graded")
    low, high = 100 * (found.mean - found.error), 100 * (found.mean + found.error)
    moved = found.pairs[:MAX_TASKS]
    rows = [(p.task, percent(p.first), percent(p.second), f"{100 * p.delta:+.1f}") for p in moved]
    return Part(
        id="tasks",
        title=title,
        says=f"Mean paired difference of {len(found.pairs)} tasks, second minus first: {100 * found.mean:+.1f} points "
        f"(95 %: {low:+.1f} … {high:+.1f}); {found.num_better} better, {found.num_worse} worse. "
        "Those that differ most:",
        tables=(table(("task", "first", "second", "points"), rows),),
    )


def _letters(runs: Sequence[RunFeed]) -> tuple[str, ...]:
    return tuple(_LETTERS[: len(runs)])


def _lettered(runs: Sequence[RunFeed]) -> Iterator[tuple[str, RunFeed]]:
    return zip(_LETTERS, runs, strict=False)
