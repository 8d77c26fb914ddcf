"""Marked runs over each other: one metric in a chart, every metric in a line, recipes by difference."""

from __future__ import annotations

from functools import partial

import numpy as np
from rich.text import Text
from textual.app import ComposeResult

from lego_tui.differences import differences
from lego_tui.feed.run import RunFeed
from lego_tui.metrics import names, series, show
from lego_tui.safe import fit, one_line
from lego_tui.screens.page import Page
from lego_tui.widgets.chart import Chart, Curve
from lego_tui.widgets.lines import Lines


class ComparePage(Page):
    """Reached from the fleet."""

    NAME, BACK = "compare", "fleet"
    KEYS = (("jk", "metric"), ("esc", "fleet"), ("?", "help"))

    def compose(self) -> ComposeResult:
        self._rows: list[tuple[str, list[str]]] = []
        yield Chart(id="compare-chart")
        yield Lines(id="compare-lines")

    def _runs(self) -> list[RunFeed]:
        fleet = self.state.fleet
        return [fleet.runs[name] for name in sorted(self.state.marked) if name in fleet.runs][:4]

    def draw(self) -> None:
        palette, runs, lines = self.palette, self._runs(), self.query_one(Lines)
        if len(runs) < 2:
            lines.show(1, self.note("mark two or more runs with space on screen 1, then c"))
            return
        self._rows = [
            (name, [show(name, _late(series(run, name))) for run in runs]) for name in names(runs[0])
        ]
        self._rows += [
            (f"recipe {key}", [one_line(v, 40) for v in values]) for key, values in differences(runs)
        ]
        self._rows = [row for row in self._rows if self.passes(row[0])]
        lines.show(len(self._rows), self._line, header=self._header, cursor_style=palette.cursor)
        self._chart(runs)

    def _chart(self, runs: list[RunFeed]) -> None:
        palette, metric = self.palette, self.state.metric
        styles = (palette.accent, palette.watch, palette.kinds["run"], palette.bad)
        longest = max(runs, key=lambda run: len(run.steps))
        drawn = [
            Curve(name=run.name, values=_padded(series(run, metric), len(longest.steps)), style=style)
            for run, style in zip(runs, styles, strict=False)
        ]
        self.query_one(Chart).show(
            drawn, longest.steps.steps, at=len(longest.steps) - 1, is_log=False, is_smooth=False,
            dim=palette.dim, strong=palette.strong, label=partial(show, metric),
        )  # fmt: skip

    def _header(self, width: int) -> Text:
        room = max((width - 26) // max(len(self._runs()), 1) - 2, 6)
        titles = "  ".join(fit(one_line(run.name, 80), room) for run in self._runs())
        return Text(f"{fit('mean of the last 5', 24)}  {titles}", self.palette.dim)

    def _line(self, number: int, width: int) -> Text:
        name, values = self._rows[number]
        room = max((width - 26) // max(len(values), 1) - 2, 6)
        return Text.assemble(
            (fit(name, 24), self.palette.strong),
            "  ",
            ("  ".join(fit(v, room) for v in values), self.palette.text),
        )

    def on_lines_moved(self) -> None:
        number = self.query_one(Lines).cursor
        if number < len(self._rows) and not self._rows[number][0].startswith("recipe "):
            self.state.metric = self._rows[number][0]
            self._chart(self._runs())


def _late(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)][-5:]
    return float(finite.mean()) if len(finite) else np.nan


def _padded(values: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([values, np.full(max(count - len(values), 0), np.nan)])
