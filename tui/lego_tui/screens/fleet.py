"""Every run of a folder in a line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lego_tui.feed.run import RunFeed
from lego_tui.grid import Cell, Column, lay_out
from lego_tui.metrics import series, show
from lego_tui.palette import GLYPHS
from lego_tui.plot import spark
from lego_tui.safe import one_line, wrap
from lego_tui.screens.page import Page
from lego_tui.signals import LEVELS, signals, verdict
from lego_tui.widgets.lines import Lines

_COLUMNS = (
    Column(title="run", width=24),
    Column(title="status", width=13, rank=1),
    Column(title="looks", width=8),
    Column(title="step", width=9, right=True, rank=1),
    Column(title="reward", width=6, right=True),
    Column(title="", width=16, rank=3),
    Column(title="held-out", width=9, right=True, rank=2),
    Column(title="entropy", width=8, right=True, rank=4),
    Column(title="failed", width=7, right=True, rank=3),
    Column(title="r", width=8, right=True, rank=5),
    Column(title="what stands out", width=24, grows=True, rank=1),
)


class FleetPage(Page):
    """Screen 1."""

    NAME = "fleet"
    KEYS = (
        ("enter", "open"),
        ("space", "mark"),
        ("c", "compare"),
        ("p", "pin"),
        ("/", "filter"),
        ("?", "help"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "mark", priority=True),
        Binding("c", "compare", "compare"),
        Binding("p", "pin", "pin"),
    ]

    def compose(self) -> ComposeResult:
        self._shown: list[RunFeed] = []
        yield Lines(id="fleet-lines")
        yield Lines(has_cursor=False, id="fleet-preview")

    def draw(self) -> None:
        lines, palette = self.query_one("#fleet-lines", Lines), self.palette
        self._shown = self._runs()
        room = self.size.height // 2 if self.size.height >= 16 else self.size.height
        lines.styles.height = max(min(len(self._shown) + 2, room), 3)
        self._preview()
        if not self._shown:
            root = self.state.fleet.root
            trouble = self.state.fleet.trouble or f"no run in {root} yet"
            lines.show(2, self.note(trouble, "lego quickstart makes one; lego demo-runs DIR writes examples"))
            return
        lines.show(
            len(self._shown),
            self._line,
            header=lambda width: lay_out(_COLUMNS, width).header(palette.dim, self.sort, self.descending),
            cursor_style=palette.cursor,
        )

    def _preview(self) -> None:
        """What stands out in the run under the cursor, in full."""
        lines, run, palette = self.query_one("#fleet-preview", Lines), self.selected(), self.palette
        lines.display = self.size.height >= 16
        rows: list[tuple[str, Style]] = []
        width = max(self.size.width - 2, 10)
        if run is not None:
            about = [
                f"{run.knob('harness', 'name') or '?'}",
                f"seed {run.knob('run', 'seed')}",
                f"made {run.created[:16].replace('T', ' ')} UTC",
            ]
            rows.append((one_line(f"── {run.name}: {', '.join(about)} ──", width), palette.dim))
            if run.newer:
                rows.append((one_line(run.newer, width), palette.watch))
            found = signals(run)
            if not found:
                rows.append((f"{GLYPHS['ok']} ok  nothing stands out", palette.ok))
            for signal in found:
                since = f" since step {signal.since}" if signal.since is not None else ""
                head = f"{GLYPHS[signal.level]} {signal.level}{since}: {signal.what}"
                rows += [(line, palette.level(signal.level)) for line in wrap(head, width)]
                rows += [(f"    {line}", palette.text) for line in wrap(f"means: {signal.means}", width - 4)]
            if run.reason:
                rows += [(line, palette.watch) for line in wrap(f"ended {run.status}: {run.reason}", width)]
        lines.show(len(rows), lambda number, width: Text(rows[number][0], rows[number][1], no_wrap=True))

    def on_lines_moved(self) -> None:
        self._preview()

    def _runs(self) -> list[RunFeed]:
        runs = [
            r
            for r in list(self.state.fleet.runs.values())
            if self.passes(f"{r.name} {r.status} {verdict(r)}")
        ]
        runs.sort(key=lambda run: run.created, reverse=True)
        keys: dict[int, Callable[[RunFeed], float | str]] = {
            0: lambda r: r.name,
            1: lambda r: r.status,
            2: lambda r: LEVELS.index(verdict(r)),
            3: lambda r: len(r.steps),
            4: lambda r: _number(r.steps.last("reward_mean")),
            6: lambda r: _number(_last(series(r, "heldout"))),
            7: lambda r: _number(r.steps.last("entropy")),
            8: lambda r: _number(_last(series(r, "failed share"))),
            9: lambda r: _number(r.steps.last("pearson_r")),
        }
        if self.sort in keys and (self.sort or self.descending):
            runs.sort(key=keys[self.sort], reverse=self.descending)
        runs.sort(key=lambda run: run.name not in self.state.pinned)
        return runs

    def columns(self) -> int:
        return len(_COLUMNS)

    def _line(self, number: int, width: int) -> Text:
        run, palette = self._shown[number], self.palette
        level = verdict(run)
        status = run.status
        marks = ("★" if run.name in self.state.pinned else " ") + (
            "▸" if run.name in self.state.marked else " "
        )
        reward = series(run, "reward_mean")
        worst = next(iter(signals(run)), None)
        says = worst.what if worst else run.reason or run.newer
        cells: list[Cell] = [
            (marks + one_line(run.name, 200), palette.strong),
            (f"{GLYPHS.get(status, '?')} {status}", palette.level(status)),
            (f"{GLYPHS[level]} {level}", palette.level(level)),
            (f"{len(run.steps)}/{run.total_steps or '?'}", palette.text),
            (show("reward_mean", _last(reward)), palette.strong),
            (spark(reward, 16), palette.accent),
            (show("heldout", _last(series(run, "heldout"))), palette.text),
            (show("entropy", run.steps.last("entropy")), palette.text),
            (show("failed share", _last(series(run, "failed share"))), palette.text),
            (show("pearson_r", run.steps.last("pearson_r")), palette.text),
            (one_line(says, 300), palette.level(worst.level) if worst else palette.dim),
        ]
        return lay_out(_COLUMNS, width).row(cells)

    def selected(self) -> RunFeed | None:
        number = self.query_one("#fleet-lines", Lines).cursor
        return self._shown[number] if number < len(self._shown) else None

    def handle(self) -> str:
        run = self.selected()
        return str(run.layout.root) if run else ""

    def on_lines_chosen(self) -> None:
        if run := self.selected():
            self.state.choose_run(run.name)
            self.shell.go("run")

    def action_mark(self) -> None:
        self._toggle(self.state.marked)

    def action_pin(self) -> None:
        self._toggle(self.state.pinned)

    def action_compare(self) -> None:
        if len(self.state.marked) < 2:
            self.shell.say("mark two or more runs with space, then c")
        else:
            self.shell.go("compare")

    def _toggle(self, names: set[str]) -> None:
        if run := self.selected():
            names.symmetric_difference_update({run.name})
            self.draw()


def _last(values: Sequence[float] | np.ndarray) -> float:
    return float(values[-1]) if len(values) else np.nan


def _number(value: float) -> float:
    return -np.inf if np.isnan(value) else value
