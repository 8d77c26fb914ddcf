"""One run: what stands out, a chart over its steps, every metric on a line."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from lego_tui.feed.run import RunFeed
from lego_tui.grid import Cell, Column, lay_out
from lego_tui.health import findings, happened, headline, just_before, level, since, verdict
from lego_tui.metrics import is_share, names, series, show
from lego_tui.palette import GLYPHS
from lego_tui.plot import rate_scale, spark
from lego_tui.safe import one_line
from lego_tui.screens.page import Page
from lego_tui.widgets.chart import Chart, Curve
from lego_tui.widgets.facts import Facts
from lego_tui.widgets.lines import Lines

_COLUMNS = (
    Column(title="metric", width=19),
    Column(title="now", width=9, right=True),
    Column(title="over the steps", width=10, grows=True),
    Column(title="first 5", width=9, right=True, rank=1),
    Column(title="last 5", width=9, right=True, rank=1),
)
_BESIDE = {"reward_mean": "heldout"}
"""Metric → another worth seeing in the same chart."""


class RunPage(Page):
    """Screen 2."""

    NAME = "run"
    KEYS = (
        ("←→", "step"),
        ("jk", "metric"),
        ("enter", "open step"),
        ("g", "log"),
        ("x", "smooth"),
        ("a", "findings"),
        ("?", "help"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "shift(-1)", "step before", priority=True),
        Binding("right", "shift(1)", "next step", priority=True),
        Binding("g", "log", "log axis"),
        Binding("x", "smooth", "smooth"),
        Binding("a", "findings", "findings"),
    ]

    def compose(self) -> ComposeResult:
        self._names: list[str] = []
        yield Facts(id="run-findings")
        with Container(id="run-split"):
            yield Chart(id="run-chart")
            yield Lines(id="run-metrics")

    def draw(self) -> None:
        run, palette = self.state.run, self.palette
        lines, chart = self.query_one(Lines), self.query_one(Chart)
        if run is None or not len(run.steps):
            self.query_one(Facts).show()
            chart.show([], [], at=-1, is_log=False, is_smooth=False, dim=palette.dim, strong=palette.strong)
            why = "no run is chosen: 1 lists them" if run is None else f"{one_line(run.name)} has no step yet"
            stage = run.stage if run else None
            doing = (
                f"it is at: {one_line(stage.fields.get('stage', ''))}"
                if stage
                else "steps.jsonl grows by a line a step"
            )
            lines.show(2, self.note(why, doing))
            return
        self._draw_findings()
        self._names = [name for name in names(run) if self.passes(name)]
        if self.sort or self.descending:
            self._names.sort(reverse=self.descending)
        lines.show(
            len(self._names),
            self._line,
            header=self._header,
            cursor_style=palette.cursor,
        )
        if self.state.metric in self._names and lines.cursor != self._names.index(self.state.metric):
            lines.move_to(self._names.index(self.state.metric))
        self._draw_chart()

    def _draw_findings(self) -> None:
        run, palette = self.state.run, self.palette
        assert run is not None
        told, width = self._told(run), max(self.size.width, 10)
        rows = 1 if self.size.height < 20 else 3
        text = Text(no_wrap=True, overflow="ellipsis")
        more = f"  +{len(told) - rows} more: a" if len(told) > rows else ""
        for n, (said, how) in enumerate(told[:rows]):
            room = width - 1 - (len(more) if n == rows - 1 else 0)
            text.append(("\n" if n else "") + one_line(said, max(room, 8)), palette.level(how))
        text.append(more, palette.dim)
        self.query_one(Facts).show(text)

    @staticmethod
    def _told(run: RunFeed) -> list[tuple[str, str]]:
        """What stands out and its level: the likeliest cause, what happened just before it, then every finding."""
        found, causes, word = findings(run), run.diagnosis.hypotheses, verdict(run)
        if not found:
            return [(f"{GLYPHS[word]} {word}  nothing stands out", word)]
        told = [(f"{GLYPHS[word]} {word}: {headline(run)[0]}", word)] if causes else []
        if causes:
            before = just_before(run, since(run, causes[0]))
            told += [(f"{GLYPHS['watch']} just before: {text}", "watch") for text in before]
        return told + [(f"{GLYPHS[level(finding)]} {finding.line}", level(finding)) for finding in found]

    def _draw_chart(self) -> None:
        run, palette = self.state.run, self.palette
        assert run is not None
        metric = self.state.metric
        curves = [Curve(name=metric, values=series(run, metric), style=palette.accent)]
        if beside := _BESIDE.get(metric):
            values = series(run, beside)
            if np.isfinite(values).any():
                curves.append(Curve(name=beside, values=values, style=palette.watch))
        self.query_one(Chart).show(
            curves,
            run.steps.steps,
            at=self._row(),
            is_log=self.state.is_log,
            is_smooth=self.state.is_smooth,
            dim=palette.dim,
            strong=palette.strong,
            label=partial(show, metric),
            events=[row for step, _ in happened(run) if (row := run.steps.row(step)) >= 0],
        )

    def _row(self) -> int:
        run = self.state.run
        return run.steps.row(self.state.step_now) if run else -1

    def _header(self, width: int) -> Text:
        """Above the values: of which step they are."""
        state, shown = self.state, list(_COLUMNS)
        shown[1] = replace(shown[1], title="newest" if state.step is None else f"step {state.step}")
        return lay_out(shown, width).header(self.palette.dim)

    def _line(self, number: int, width: int) -> Text:
        run, palette = self.state.run, self.palette
        assert run is not None
        name = self._names[number]
        grid = lay_out(_COLUMNS, width)
        values = series(run, name)
        room = next((w for place, _, w in grid.shown if place == 2), 10)
        finite = values[np.isfinite(values)]
        row = self._row()
        now = float(values[row]) if 0 <= row < len(values) else np.nan
        first, last = (_mean(finite[:5]), _mean(finite[-5:]))
        cells: list[Cell] = [
            (name, palette.strong if name == self.state.metric else palette.text),
            (show(name, now), palette.strong),
            (spark(values, room, rate_scale(values) if is_share(name) else None), palette.accent),
            (show(name, first), palette.dim),
            (show(name, last), palette.dim),
        ]
        return grid.row(cells)

    def on_lines_moved(self) -> None:
        lines = self.query_one(Lines)
        if lines.cursor < len(self._names):
            self.state.metric = self._names[lines.cursor]
            self._draw_chart()
            lines.refresh()

    def on_lines_chosen(self) -> None:
        if self.state.step_now is not None:
            self.state.step = self.state.step_now
            self.shell.go("step")

    def action_shift(self, by: int) -> None:
        run = self.state.run
        if run and len(run.steps):
            row = min(max(self._row() + by, 0), len(run.steps) - 1)
            self.state.step = run.steps.steps[row]
            self.shell.draw()

    def action_log(self) -> None:
        self.state.is_log = not self.state.is_log
        self.draw()

    def action_smooth(self) -> None:
        self.state.is_smooth = not self.state.is_smooth
        self.draw()

    def action_findings(self) -> None:
        self.shell.go("health")

    def handle(self) -> str:
        run = self.state.run
        return f"{run.name}/step/{self.state.step_now}" if run else ""


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else np.nan
