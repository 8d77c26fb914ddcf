"""A run as a row: the columns of `lego top` and of the fleet screen. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lego_core.store.json_records import to_json
from lego_tui.feed.run import RunFeed
from lego_tui.grid import Cell, Column
from lego_tui.health import VERDICTS, findings, headline, verdict
from lego_tui.metrics import series, show
from lego_tui.palette import GLYPHS, Palette
from lego_tui.plot import spark
from lego_tui.safe import one_line

SHOWN = ("reward_mean", "heldout", "entropy", "ungraded share", "pearson_r")
"""Series of which a row says the last value."""
COLUMNS = (
    Column(title="run", width=21),
    Column(title="status", width=13, rank=2),
    Column(title="looks", width=11),
    Column(title="step", width=7, right=True, rank=1),
    Column(title="reward", width=7, right=True),
    Column(title="", width=16, rank=3),
    Column(title="held-out", width=8, right=True, rank=1),
    Column(title="entropy", width=8, right=True, rank=4),
    Column(title="ungraded", width=8, right=True, rank=3),
    Column(title="r", width=8, right=True, rank=5),
    Column(title="what stands out", width=16, grows=True),
)
_WORTH = {word.value: place for place, word in enumerate(VERDICTS)}
SORTS: dict[int, Callable[[RunFeed], float | str]] = {
    0: lambda run: run.name,
    1: lambda run: run.status,
    2: lambda run: _WORTH[verdict(run)],
    3: lambda run: len(run.steps),
    4: lambda run: _order(last(run, "reward_mean")),
    6: lambda run: _order(last(run, "heldout")),
    7: lambda run: _order(last(run, "entropy")),
    8: lambda run: _order(last(run, "ungraded share")),
    9: lambda run: _order(last(run, "pearson_r")),
}
"""Column → what runs are ordered by."""


def cells(run: RunFeed, look: Palette, marks: str = "") -> list[Cell]:
    """One cell for each of COLUMNS; `marks` are put before the name."""
    word, status, (told, how) = verdict(run), run.status, headline(run)
    return [
        (marks + one_line(run.name, 200), look.strong),
        (f"{GLYPHS.get(status, '?')} {status}", look.level(status)),
        (f"{GLYPHS[word]} {word}", look.level(word)),
        (f"{len(run.steps)}/{run.total_steps or '?'}", look.text),
        (show("reward_mean", last(run, "reward_mean")), look.strong),
        (spark(series(run, "reward_mean"), 16), look.accent),
        *((show(name, last(run, name)), look.text) for name in SHOWN[1:]),
        (one_line(told, 300), look.level(how) if how else look.dim),
    ]


def facts(run: RunFeed) -> dict[str, Any]:
    """One run in plain values; null for what is not known."""
    return {
        "run": str(run.layout.root.resolve()),
        "name": run.name,
        "status": run.status,
        "looks": verdict(run),
        "step": run.steps.steps[-1] if len(run.steps) else 0,
        "steps": run.total_steps,
        **{name.replace(" ", "_"): _known(last(run, name)) for name in SHOWN},
        "findings": [to_json(finding) for finding in findings(run)],
        "reason": run.reason,
        "unreadable_lines": run.num_broken,
    }


def last(run: RunFeed, name: str) -> float:
    """The last value of a series; NaN without one."""
    values = series(run, name)
    return float(values[-1]) if len(values) else math.nan


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _order(value: float) -> float:
    return -math.inf if math.isnan(value) else value
