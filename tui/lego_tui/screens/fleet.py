"""Every run of a folder, one per line."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lego_tui.feed.run import RunFeed
from lego_tui.fleet_table import COLUMNS, SORTS, cells
from lego_tui.grid import lay_out
from lego_tui.health import findings, level, verdict
from lego_tui.palette import GLYPHS
from lego_tui.safe import one_line, wrap
from lego_tui.screens.page import Page
from lego_tui.widgets.lines import Lines


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
            header=lambda width: lay_out(COLUMNS, width).header(palette.dim, self.sort, self.descending),
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
            found = findings(run)
            if not found:
                rows.append(
                    (
                        f"{GLYPHS[verdict(run)]} {verdict(run)}  nothing stands out",
                        palette.level(verdict(run)),
                    )
                )
            for finding in found:
                head = f"{GLYPHS[level(finding)]} {finding.line}"
                rows += [(line, palette.level(level(finding))) for line in wrap(head, width)]
            for hypothesis in run.diagnosis.hypotheses[:2]:
                told = f"{hypothesis.name}: {hypothesis.text}"
                rows += [(f"    {line}", palette.text) for line in wrap(told, width - 4)]
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
        if self.sort in SORTS and (self.sort or self.descending):
            runs.sort(key=SORTS[self.sort], reverse=self.descending)
        runs.sort(key=lambda run: run.name not in self.state.pinned)
        return runs

    def columns(self) -> int:
        return len(COLUMNS)

    def _line(self, number: int, width: int) -> Text:
        run = self._shown[number]
        marks = ("★" if run.name in self.state.pinned else " ") + (
            "▸" if run.name in self.state.marked else " "
        )
        return lay_out(COLUMNS, width).row(cells(run, self.palette, marks))

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
