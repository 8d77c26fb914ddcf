"""What stands out in a run and what happened: signals, events, jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lego_tui.palette import GLYPHS
from lego_tui.safe import one_line, wrap
from lego_tui.screens.page import Page
from lego_tui.signals import Signal, just_before, signals
from lego_tui.widgets.lines import Lines

WATCHDOG = "watchdog"
"""Kind of the event that the run's watchdog leaves behind each step."""
_QUIET = ("stage", "checkpoint", WATCHDOG)
_LOUD = {
    "failed": "bad",
    "warning": "watch",
    "interrupted": "watch",
    "truncated": "watch",
    "stop": "bad",
    "alert": "watch",
    "watchdog_failed": "bad",
}
_MAX_EVENTS = 400


class HealthPage(Page):
    """Screen 5."""

    NAME, BACK = "health", "run"
    KEYS = (
        ("enter", "show metric"),
        ("a", "acknowledge"),
        ("b v e", "backtest, validate, report"),
        ("/", "filter"),
        ("?", "help"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "acknowledge", "acknowledge"),
        Binding("b", "command('lego check RUN --backtest')", "backtest"),
        Binding("v", "command('lego validate RECIPE')", "validate"),
        Binding("e", "command('lego report RUN --html report.html')", "report"),
    ]

    def compose(self) -> ComposeResult:
        self._rows: list[tuple[str, Style, Signal | None]] = []
        yield Lines(id="health-lines")

    def draw(self) -> None:
        lines, run = self.query_one(Lines), self.state.run
        if run is None:
            lines.show(1, self.note("no run is chosen: 1 lists them"))
            return
        width = max(self.size.width - 2, 10)
        self._rows = [
            row
            for row in [*self._signals(width), *self._store(), *self._events(width)]
            if self.passes(row[0]) or not row[0]
        ]
        lines.show(len(self._rows), self._line, cursor_style=self.palette.cursor)

    def _signals(self, width: int) -> list[tuple[str, Style, Signal | None]]:
        run, palette = self.state.run, self.palette
        assert run is not None
        rows: list[tuple[str, Style, Signal | None]] = [("what stands out", palette.strong, None)]
        found = signals(run)
        if not found:
            rows.append((f"{GLYPHS['ok']} ok  nothing: {len(run.steps)} steps looked at", palette.ok, None))
        for signal in found:
            known = self._key(signal) in self.state.acknowledged
            style = palette.dim if known else palette.level(signal.level)
            since = f" since step {signal.since}" if signal.since is not None else ""
            head = f"{GLYPHS[signal.level]} {signal.level}{since}{' (acknowledged)' if known else ''}: {signal.what}"
            rows += [(line, style, signal) for line in wrap(head, width)]
            rows += [
                (f"    {line}", palette.text, signal) for line in wrap(f"means: {signal.means}", width - 4)
            ]
            if signal.since is not None:
                before = just_before(run, signal.since)
                rows += [
                    (f"    {GLYPHS['watch']} just before: {text}", palette.watch, signal) for text in before
                ]
            rows += [(f"    {line}", palette.dim, signal) for line in wrap(f"look: {signal.look}", width - 4)]
        return rows

    def _store(self) -> list[tuple[str, Style, Signal | None]]:
        run, palette = self.state.run, self.palette
        assert run is not None
        rows: list[tuple[str, Style, Signal | None]] = [
            ("", palette.dim, None),
            ("jobs and store", palette.strong, None),
        ]
        last = next((event for event in reversed(run.events) if event.kind == WATCHDOG), None)
        if last is not None:
            said = {key: one_line(last.fields.get(key, "?"), 40) for key in ("step", "verdict", "action")}
            told = f"watchdog: {said['verdict']} at step {said['step']}, policy {said['action']}"
            rows.append((told, palette.text, None))
        if run.newer:
            rows.append((f"{GLYPHS['watch']} {run.newer}", palette.watch, None))
        if run.reason:
            rows.append(
                (f"{GLYPHS['watch']} ended {run.status}: {one_line(run.reason, 300)}", palette.watch, None)
            )
        if run.num_broken:
            rows.append((f"{GLYPHS['watch']} {run.num_broken} lines could not be read", palette.watch, None))
            rows += [(f"    {one_line(text, 200)}", palette.dim, None) for text in list(run.complaints)[-5:]]
        rows.append(
            ("no validation job is recorded in this run: lego validate RECIPE makes one", palette.dim, None)
        )
        return rows

    def _events(self, width: int) -> list[tuple[str, Style, Signal | None]]:
        run, palette = self.state.run, self.palette
        assert run is not None
        rows: list[tuple[str, Style, Signal | None]] = [
            ("", palette.dim, None),
            ("events, newest first", palette.strong, None),
        ]
        shown = [e for e in reversed(run.events) if e.kind not in _QUIET or self.filter][:_MAX_EVENTS]
        for event in shown:
            fields = "  ".join(f"{k} {v}" for k, v in event.fields.items())
            level = _LOUD.get(event.kind)
            style = palette.level(level) if level else palette.text
            glyph = GLYPHS[level] + " " if level else ""
            rows.append(
                (one_line(f"{_clock(event.time)}  {glyph}{event.kind}  {fields}", width), style, None)
            )
        hidden = len(run.events) - len(shown)
        if hidden and not self.filter:
            rows.append(
                (f"{hidden} stages and checkpoints are left out: / shows them too", palette.dim, None)
            )
        return rows

    def _line(self, number: int, width: int) -> Text:
        text, style, _ = self._rows[number]
        return Text(text, style, no_wrap=True, overflow="ellipsis")

    @staticmethod
    def _key(signal: Signal) -> str:
        return f"{signal.metric}/{signal.level}/{signal.since}"

    def _selected(self) -> Signal | None:
        number = self.query_one(Lines).cursor
        return self._rows[number][2] if number < len(self._rows) else None

    def on_lines_chosen(self) -> None:
        if signal := self._selected():
            self.state.metric = signal.metric
            if signal.since is not None:
                self.state.step = signal.since
            self.shell.go("run")

    def action_acknowledge(self) -> None:
        if signal := self._selected():
            self.state.acknowledged.symmetric_difference_update({self._key(signal)})
            self.draw()
        else:
            self.shell.say("put the cursor on a signal first")

    def action_command(self, command: str) -> None:
        run = self.state.run
        self.shell.say("in a shell: " + command.replace("RUN", str(run.layout.root) if run else "RUN"))


def _clock(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return "?"
