"""Marked runs compared: one metric in a chart, every metric with its distance to the first run, common tasks as pairs.

Also shows how the recipes differ. The numbers are those of `lego compare`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from rich.text import Text
from textual.app import ComposeResult

from lego_tui.differences import differences
from lego_tui.feed.run import RunFeed
from lego_tui.intervals import difference, late, mean, num_late
from lego_tui.metrics import is_share, names, series, show
from lego_tui.paired import paired, task_rates
from lego_tui.safe import fit, one_line
from lego_tui.screens.page import Page
from lego_tui.widgets.chart import Chart, Curve
from lego_tui.widgets.lines import Lines

_NAME, _APART, _LEAST = 24, 33, 8
"""Cells of a metric's name, of a difference with its interval, and of the narrowest value beside one."""


_TASK, _RECIPE, _MAX_TASKS = "task ", "recipe ", 20
_TASKS = "tasks both met, points"


class Compared(NamedTuple):
    """One line: a metric, a task or a key of the recipe."""

    name: str
    values: list[str]
    """By run."""
    apart: list[str]
    """The other runs minus the first; empty for the recipe."""


class ComparePage(Page):
    """Reached from the fleet."""

    NAME, BACK = "compare", "fleet"
    KEYS = (("jk", "metric"), ("esc", "fleet"), ("?", "help"))

    def compose(self) -> ComposeResult:
        self._rows: list[Compared] = []
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
        self.shell.read_whole(frozenset(run.name for run in runs))
        self._rows = [self._compared(runs, name) for name in names(runs[0])]
        of_tasks = self._tasks(runs)
        self._rows[2:2] = of_tasks[:1]
        self._rows += of_tasks[1:]
        self._rows += [
            Compared(f"{_RECIPE}{key}", [one_line(v, 40) for v in values], [])
            for key, values in differences(runs)
        ]
        self._rows = [row for row in self._rows if self.passes(row.name)]
        lines.show(len(self._rows), self._line, header=self._header, cursor_style=palette.cursor)
        charted = [row.name for row in self._rows]
        if self.state.metric in charted and not self._is_at_rest(lines):
            lines.move_to(charted.index(self.state.metric))
        self._chart(runs)

    def _is_at_rest(self, lines: Lines) -> bool:
        """Whether the cursor is on the metric of the chart, or on a line that has no curve."""
        here = self._rows[lines.cursor].name if lines.cursor < len(self._rows) else ""
        return here == self.state.metric or here.startswith((_TASK, _RECIPE, _TASKS))

    def _compared(self, runs: list[RunFeed], name: str) -> Compared:
        found = [late(run, name, num_late(runs)) for run in runs]
        means = [show(name, mean(values) if values else math.nan) for values in found]
        scale = 100 if is_share(name) else 1
        apart = [difference(found[0], other, scale=scale, digits=3) for other in found[1:]]
        return Compared(name, means, apart)

    def _tasks(self, runs: list[RunFeed]) -> list[Compared]:
        """Solve rates of tasks that the first run and another both trained on: their mean, then those that differ most."""
        rates = [run.index_at_step("rates", task_rates) for run in runs]
        found = [paired(rates[0], other) for other in rates[1:]]
        if not any(found):
            return []
        points = [each.points if each else "–" for each in found]
        counts = [f"{p.num_better}↑ {p.num_worse}↓ of {len(p.pairs)}" if p else "" for p in found]
        rows = [Compared(_TASKS, ["", *counts], points)]
        moved = dict.fromkeys(pair.task for each in found if each for pair in each.pairs[:_MAX_TASKS])
        for task in list(moved)[:_MAX_TASKS]:
            here = [rate.get(task, math.nan) for rate in rates]
            apart = [f"{100 * (other - here[0]):+.1f}" if other == other else "–" for other in here[1:]]
            rows.append(Compared(f"{_TASK}{one_line(task, 80)}", [_percent(rate) for rate in here], apart))
        return rows

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
        runs = self._runs()
        names = [one_line(run.name, 80) for run in runs]
        apart = ["minus first (95 %), % in points", *[""] * (len(runs) - 2)]
        return Text(self._cells(f"mean, last {num_late(runs)} steps", names, apart, width), self.palette.dim)

    def _line(self, number: int, width: int) -> Text:
        row = self._rows[number]
        text = Text(self._cells(row.name, row.values, row.apart, width), self.palette.text)
        text.stylize(self.palette.strong, 0, _NAME)
        return text

    def _cells(self, name: str, values: list[str], apart: list[str], width: int) -> str:
        """One line; without intervals if there is no room for them next to the values."""
        num_runs = len(self._runs())
        room = (width - _NAME - (num_runs - 1) * (_APART + 2)) // num_runs - 2
        if room < _LEAST or not apart:
            room, apart = max((width - _NAME - 2) // num_runs - 2, 6), []
        return "  ".join(
            [fit(name, _NAME), *(fit(v, room) for v in values), *(fit(v, _APART) for v in apart)]
        )

    def on_lines_moved(self) -> None:
        number = self.query_one(Lines).cursor
        if number < len(self._rows) and self._rows[number].name in names(self._runs()[0]):
            self.state.metric = self._rows[number].name
            self._chart(self._runs())


def _padded(values: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([values, np.full(max(count - len(values), 0), np.nan)])


def _percent(rate: float) -> str:
    return "–" if rate != rate else f"{rate:.1%}"
