"""Every run of a folder, one per line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lego_tui.feed.run import RunFeed
from lego_tui.fleet_table import COLUMNS, SORTS, cells
from lego_tui.grid import lay_out
from lego_tui.health import findings, just_before, level, since, verdict
from lego_tui.palette import GLYPHS
from lego_tui.safe import one_line, wrap
from lego_tui.screens.page import OWN_ORDER, Page
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
        self._is_in_order = False
        """What was drawn was known well enough for the cursor to mean a run, and not just the first line."""
        self.wanted = ""
        """Name of the run that the cursor is to be on at the next draw; without one it stays on its run."""
        yield Lines(id="fleet-lines")
        yield Lines(has_cursor=False, id="fleet-preview")

    def draw(self) -> None:
        lines, palette = self.query_one("#fleet-lines", Lines), self.palette
        here = self.selected() if self._is_in_order else None
        self.wanted = self.wanted or (here.name if here else "")
        self._is_in_order = all(run.created or run.version for run in list(self.state.fleet.runs.values()))
        self._shown = self._runs()
        room = self.size.height // 2 if self.size.height >= 16 else self.size.height
        lines.styles.height = max(min(len(self._shown) + 2, room), 3)
        if not self._shown:
            self._preview()
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
        names = [run.name for run in self._shown]
        if self.wanted in names and lines.cursor != names.index(self.wanted):
            lines.move_to(names.index(self.wanted))
        self.wanted = ""
        self._preview()

    def _preview(self) -> None:
        """What stands out in the run under the cursor, in full."""
        lines, run, palette = self.query_one("#fleet-preview", Lines), self.selected(), self.palette
        lines.display = self.size.height >= 16
        rows: list[tuple[str, Style]] = []
        width = max(self.size.width - 2, 10)
        if run is not None:
            about = [
                run.status,
                f"{run.knob('harness', 'name') or '?'}",
                f"seed {run.knob('run', 'seed')}",
                f"made {run.created[:16].replace('T', ' ')} UTC",
            ]
            rows.append((one_line(f"── {run.name}: {', '.join(about)} ──", width), palette.dim))
            if run.newer:
                rows.append((one_line(run.newer, width), palette.watch))
            rows += self._causes(run, width)
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
            if run.reason:
                rows += [(line, palette.watch) for line in wrap(f"ended {run.status}: {run.reason}", width)]
        lines.show(len(rows), lambda number, width: Text(rows[number][0], rows[number][1], no_wrap=True))

    def _causes(self, run: RunFeed, width: int) -> list[tuple[str, Style]]:
        """The likeliest cause and what happened just before it, then the second likeliest."""
        palette, rows = self.palette, list[tuple[str, Style]]()
        for number, hypothesis in enumerate(run.diagnosis.hypotheses[:2]):
            begun = since(run, hypothesis)
            told = f"{hypothesis.name} since step {begun}: {hypothesis.text}"
            style = palette.strong if not number else palette.dim
            rows += [(line, style) for line in wrap(told if not number else f"or {told}", width)]
            if not number:
                before = (f"    {GLYPHS['watch']} just before: {text}" for text in just_before(run, begun))
                rows += [(one_line(line, width), palette.watch) for line in before]
        return rows

    def on_lines_moved(self) -> None:
        self._preview()

    def _runs(self) -> list[RunFeed]:
        runs = [
            r
            for r in list(self.state.fleet.runs.values())
            if self.passes(f"{r.name} {r.status} {verdict(r)}")
        ]
        runs.sort(key=lambda run: run.created, reverse=True)
        if self.sort in SORTS:
            runs.sort(key=SORTS[self.sort], reverse=self.descending)
        elif self.descending:
            runs.reverse()
        runs.sort(key=lambda run: run.name not in self.state.pinned)
        return runs

    def orders(self) -> Sequence[int]:
        return (OWN_ORDER, *SORTS)

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
