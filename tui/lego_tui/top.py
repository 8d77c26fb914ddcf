"""The runs of a folder as a table that renews itself, or as JSON."""

from __future__ import annotations

import math
from typing import Any

from rich.text import Text

from lego_tui.feed.fleet import Fleet
from lego_tui.feed.run import RunFeed
from lego_tui.grid import Cell, Column, lay_out
from lego_tui.metrics import series, show
from lego_tui.palette import GLYPHS, palette
from lego_tui.plot import spark
from lego_tui.safe import one_line
from lego_tui.signals import signals, verdict


def facts(run: RunFeed) -> dict[str, Any]:
    """One run in plain values; null for what is not known."""
    values = {
        name: series(run, name) for name in ("reward_mean", "heldout", "failed share", "entropy", "pearson_r")
    }
    return {
        "run": str(run.layout.root.resolve()),
        "name": run.name,
        "status": run.status,
        "looks": verdict(run),
        "step": run.steps.steps[-1] if len(run.steps) else 0,
        "steps": run.total_steps,
        **{name.replace(" ", "_"): _last(column) for name, column in values.items()},
        "signals": [
            {"level": s.level, "since": s.since, "what": s.what, "means": s.means} for s in signals(run)
        ],
        "reason": run.reason,
        "unreadable_lines": run.num_broken,
    }


def catch_up(fleet: Fleet) -> None:
    """Read everything that is there now."""
    fleet.poll()
    while fleet.is_behind:
        fleet.poll()


_COLUMNS = (
    Column(title="run", width=22),
    Column(title="status", width=13, rank=1),
    Column(title="looks", width=8),
    Column(title="step", width=9, right=True, rank=2),
    Column(title="reward", width=6, right=True),
    Column(title="", width=16, rank=4),
    Column(title="held-out", width=8, right=True, rank=3),
    Column(title="failed", width=7, right=True, rank=4),
    Column(title="what stands out", width=24, grows=True, rank=2),
)


def table(fleet: Fleet, width: int) -> Text:
    """The fleet for people, in lines of `width` cells."""
    look, grid = palette("lego-dark"), lay_out(_COLUMNS, width)
    runs = sorted(fleet.runs.values(), key=lambda run: run.created, reverse=True)
    if not runs:
        return Text(f"no run in {one_line(fleet.root)}; lego demo-runs DIR writes examples")
    return Text("\n").join([grid.header(look.dim), *(grid.row(_cells(run)) for run in runs)])


def _cells(run: RunFeed) -> list[Cell]:
    look, level, found = palette("lego-dark"), verdict(run), signals(run)
    reward = series(run, "reward_mean")
    return [
        (one_line(run.name, 60), look.strong),
        (f"{GLYPHS.get(run.status, '?')} {run.status}", look.level(run.status)),
        (f"{GLYPHS[level]} {level}", look.level(level)),
        (f"{len(run.steps)}/{run.total_steps or '?'}", look.text),
        (show("reward_mean", _nan(_last(reward))), look.strong),
        (spark(reward, 16), look.accent),
        (show("heldout", _nan(_last(series(run, "heldout")))), look.text),
        (show("failed share", _nan(_last(series(run, "failed share")))), look.text),
        (
            one_line(found[0].what if found else run.reason, 200),
            look.level(found[0].level) if found else look.dim,
        ),
    ]


def _last(values: Any) -> float | None:
    return float(values[-1]) if len(values) and math.isfinite(values[-1]) else None


def _nan(value: float | None) -> float:
    return math.nan if value is None else value
