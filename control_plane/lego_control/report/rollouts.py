"""Parts made from rollouts: how they end, where their time goes, what agents do, what they may have gamed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from lego_control.report.parts import Part, figure, lines, percent, table
from lego_control.report.source import Opened, Source, solved
from lego_core.store.labels import read_labels
from lego_tui.behaviours.table9 import ROWS, pass_rates, table9
from lego_tui.feed.index import Entry

BINS = 40
"""Number of points along the steps in figures that count rollouts."""


def termination(source: Source) -> Part:
    """Figure 4."""
    names = [name for name, _ in Counter(e.stop_reason or "?" for e in source.trained).most_common(8)]
    bins = _bins(source.trained)
    curves = {
        name: tuple(sum((e.stop_reason or "?") == name for e in some) / len(some) for _, some in bins)
        for name in names
    }
    drawn = figure("stack", [step for step, _ in bins], curves, "step", "share of rollouts")
    return Part(
        id="fig4",
        title="How rollouts end (Figure 4)",
        says="Share of started rollouts by stop reason; failures and timeouts are in no batch.",
        figures=(drawn,) if bins else (),
        missing="" if bins else "a recorded rollout",
    )


def wall_clock(source: Source) -> Part:
    """Table 4."""
    stages: dict[str, list[float]] = {}
    for opened in source.opened:
        for stage, seconds in opened.timings.items():
            if np.isfinite(seconds):
                stages.setdefault(stage, []).append(seconds)
    stages.pop("engine", None)  # a part of the agent's time
    whole = sum(sum(values) for values in stages.values())
    stages["total"] = [
        sum(s for stage, s in o.timings.items() if stage != "engine" and np.isfinite(s))
        for o in source.opened
    ]
    rows = [
        (stage, *(float(f) for f in (np.mean(v), *np.quantile(v, (0.5, 0.9, 0.99)))), percent(sum(v) / whole if whole else None))
        for stage, v in stages.items()
        if whole
    ]  # fmt: skip
    return Part(
        id="table4",
        title="Stage wall-clock of a rollout (Table 4)",
        says=f"Seconds, over {len(source.opened):,} rollouts, those that failed included.",
        tables=(table(("stage", "mean", "p50", "p90", "p99", "share"), rows),) if rows else (),
        missing="" if rows else "rollouts with stage timings",
    )


def in_batch(source: Source) -> Part:
    """Figure 5: first and last epoch if there are several, otherwise first and last third of the steps."""
    spans, what = _spans(source)
    groups = [source.groups(some) for some in spans]
    size = max((len(g) for some in groups for g in some), default=0)
    if not size:
        return Part(id="fig5", title="Successes in a group (Figure 5)", missing="graded groups")
    ends = {"first": groups[0], "last": _last_whole(groups)}
    curves = {
        f"{name} {what}": _histogram([sum(bool(solved(e)) for e in g) for g in some], size)
        for name, some in ends.items()
    }
    dead = [_flat(some) for some in groups]
    told = (
        f"{percent(_share(_flat(some)))} of {len(some)} in the {name} {what}" for name, some in ends.items()
    )
    over = {"none or all solved": [_mean(d) if d else np.nan for d in dead]}
    return Part(
        id="fig5",
        title="Successes in a group (Figure 5)",
        says=f"Groups with none or all solved carry no advantage: {', '.join(told)}.",
        figures=(
            figure("bars", range(size + 1), curves, "rollouts solved", "share of groups"),
            *([lines(range(len(dead)), over, what, "share of groups")] if len(dead) > 2 else []),
        ),
    )


def integrity(source: Source) -> Part:
    """Table 6."""
    counts = Counter(
        kind for o in source.opened for kind in dict.fromkeys((f.what, f.is_recorded) for f in o.findings)
    )
    n = len(source.opened)
    rows = [
        (what, count, percent(count / n), "recorded by the run" if is_recorded else "read off patch or commands")
        for (what, is_recorded), count in counts.most_common(30)
    ]  # fmt: skip
    return Part(
        id="table6",
        title="Reward integrity (Table 6)",
        says=f"Rollouts with a finding, of {n:,} opened. What is read off is a reason to look, no verdict.",
        tables=(table(("finding", "rollouts", "incidence", "source"), rows or [("none", 0, percent(0.0), "")]),)
        if n
        else (),
        missing="" if n else "recorded rollouts",
    )  # fmt: skip


def labelled(source: Source) -> Part:
    """What people said of rollouts."""
    said = read_labels(source.feed.layout.root)
    rows = [(x.rollout, x.task, x.label, "exclude" if x.exclude else "", x.note, x.who, x.time) for x in said]
    return Part(
        id="review",
        title="Looked at by people",
        tables=(table(("rollout", "task", "label", "task", "note", "who", "when"), rows[-100:]),)
        if rows
        else (),
        missing="" if rows else "labels: lego review RUN lists what to look at",
    )


def tool_use(source: Source) -> Part:
    """Figure 8."""
    rates: dict[str, dict[int, list[bool]]] = {}
    for entry in source.trained:
        if (is_solved := solved(entry)) is not None:
            rates.setdefault(entry.task, {}).setdefault(entry.step, []).append(is_solved)
    seen = {task: by for task, by in rates.items() if len(by) > 1}
    change = [(task, _mean(by[min(by)]), _mean(by[max(by)]), len(by)) for task, by in seen.items()]
    moved = sorted(change, key=lambda row: (-abs(row[2] - row[1]), row[0]))[:12]
    strips = [(o.entry.id, o.entry.task, f"{o.entry.reward:g}", o.strip) for o in _siblings(source)]
    tables = [table(("rollout", "task", "reward", "turns"), strips, mono=3)] if strips else []
    if moved:
        rows = [(t, percent(a), percent(b), f"{100 * (b - a):+.1f}", n) for t, a, b, n in moved]
        tables.append(table(("task", "first visit", "last visit", "points", "visits"), rows))
    return Part(
        id="fig8",
        title="Tool use of one task's rollouts, and how solve rates moved (Figure 8)",
        says="A letter a turn: e explore, r read, E edit, T test, x run, F finish, ! failed, ? malformed, · words only. "
        "Below, the tasks whose solve rate moved most.",
        tables=tuple(tables),
        missing="" if tables else "recorded rollouts; solve-rate change needs a task visited twice",
    )  # fmt: skip


def behaviours(source: Source) -> Part:
    """Table 9 and Figure 12."""
    first, last = source.ends()
    before, after = (table9((o.behaviour, o.solved) for o in some) for some in (first, last))
    rows = [
        (words, _value(name, getattr(before, name)), _value(name, getattr(after, name)), counted)
        for name, words, counted in ROWS
    ]
    ends = [source.groups(some) for some in _thirds(source)]
    (some_a, all_a), (some_b, all_b) = (
        pass_rates([bool(solved(e)) for e in group] for group in groups) for groups in ends
    )
    k = max((len(group) for groups in ends for group in groups), default=0)
    rows += [
        (
            f"coverage pass@{k}",
            percent(some_a),
            percent(some_b),
            "groups with a rollout that solved the task",
        ),
        (f"reliability pass^{k}", percent(all_a), percent(all_b), "groups whose rollouts all did"),
    ]
    return Part(
        id="table9",
        title="Behaviours at both ends of the run (Table 9, Figure 12)",
        says=f"{before.n} rollouts of the first third of the steps against {after.n} of the last; "
        "lego_tui/behaviours/table9.py has the exact definitions.",
        tables=(table(("behaviour", "first third", "last third", "what is counted"), rows),)
        if before.n and after.n
        else (),
        missing="" if before.n and after.n else "recorded training rollouts",
    )


def reasoning(source: Source) -> Part:
    """Figure 11."""
    some = [o for o in source.opened_evaluations or source.opened if np.isfinite(o.reasoning)]
    if not any(o.reasoning > 0 for o in some):
        return Part(
            id="fig11",
            title="Reasoning share of the response (Figure 11)",
            missing="a policy that thinks: no rollout has a reasoning text",
        )
    bins = _bins([o.entry for o in some]) if not source.opened_evaluations else []
    of = {o.entry.id: o for o in some}
    points = [(step, [of[e.id] for e in part]) for step, part in bins] or [(0, some)]
    curves: dict[str, Sequence[float]] = {
        "mean over rollouts": [float(np.mean([o.reasoning for o in part])) for _, part in points],
        "weighted by characters": [
            sum(o.reasoning * o.written for o in part) / sum(o.written for o in part) for _, part in points
        ],
        "median": [float(np.median([o.reasoning for o in part])) for _, part in points],
    }
    cohort = "evaluation" if source.opened_evaluations else "training"
    return Part(
        id="fig11",
        title="Reasoning share of the response (Figure 11)",
        says=f"Share of characters, over {len(some):,} {cohort} rollouts.",
        figures=(lines([s for s, _ in points], curves, "step", "share"),),
    )


def _spans(source: Source) -> tuple[list[list[Entry]], str]:
    """Trained rollouts by epoch; by first and last third of the steps if there is only one."""
    known = {(o.entry.step, o.entry.group): o.epoch for o in source.opened}
    if len(set(known.values())) > 1:
        epochs: dict[int, list[Entry]] = {}
        now = 0
        for entry in sorted(source.trained, key=lambda e: (e.step, e.group)):
            now = known.get((entry.step, entry.group), now)  # a group that is not opened: as the one before
            epochs.setdefault(now, []).append(entry)
        return [epochs[epoch] for epoch in sorted(epochs)], "epoch"
    return _thirds(source), "third"


def _thirds(source: Source) -> list[list[Entry]]:
    """Trained rollouts of the first and of the last third of the steps."""
    low, high = source.thirds()
    return [
        [e for e in source.trained if e.step <= low],
        [e for e in source.trained if e.step >= high],
    ]


def _last_whole(epochs: Sequence[list[list[Entry]]]) -> list[list[Entry]]:
    """The last one that is no stump."""
    largest = max(len(groups) for groups in epochs)
    return next(groups for groups in reversed(epochs) if 2 * len(groups) > largest)


def _siblings(source: Source) -> list[Opened]:
    """All rollouts of the most telling group: the latest in which some solved the task and some did not."""
    groups = source.groups(source.trained)
    mixed = [g for g in groups if len({solved(e) for e in g}) > 1] or groups
    if not mixed:
        return []
    best = max(mixed, key=lambda g: (len(g), g[0].step, g[0].group))
    return [found for e in best[:16] if (found := source.open(e)) is not None]


def _bins(entries: Sequence[Entry]) -> list[tuple[int, list[Entry]]]:
    """Rollouts by step, with neighbouring steps merged if there are many."""
    by_step: dict[int, list[Entry]] = {}
    for entry in entries:
        by_step.setdefault(entry.step, []).append(entry)
    steps = sorted(by_step)
    width = max(-(-len(steps) // BINS), 1)
    parts = (steps[i : i + width] for i in range(0, len(steps), width))
    return [(part[0], [e for step in part for e in by_step[step]]) for part in parts]


def _flat(groups: Sequence[list[Entry]]) -> list[bool]:
    return [len({solved(e) for e in group}) == 1 for group in groups]


def _histogram(counts: Sequence[int], size: int) -> tuple[float, ...]:
    return tuple(counts.count(n) / len(counts) if counts else np.nan for n in range(size + 1))


def _share(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None


def _mean(values: Sequence[bool]) -> float:
    return sum(values) / len(values)


def _value(name: str, value: float | None) -> str:
    return f"{value:.2f}" if name == "files_explored" and value is not None else percent(value)
