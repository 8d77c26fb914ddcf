"""What the detectors found in a run, what may be behind it, and what happened."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lego_core.health.findings import Finding, number
from lego_core.health.watchdog import HEARTBEAT
from lego_tui.health import findings, just_before, level, series_name, verdict, where
from lego_tui.palette import GLYPHS
from lego_tui.safe import one_line, wrap
from lego_tui.screens.page import Page
from lego_tui.widgets.lines import Lines
from lego_tui.words import clock, facts

_QUIET = ("stage", "checkpoint", HEARTBEAT)
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
Row = tuple[str, Style, Finding | None]


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
        self._rows: list[Row] = []
        yield Lines(id="health-lines")

    def draw(self) -> None:
        lines, run = self.query_one(Lines), self.state.run
        if run is None:
            lines.show(1, self.note("no run is chosen: 1 lists them"))
            return
        width = max(self.size.width - 2, 10)
        self._rows = [
            row
            for row in [
                *self._findings(width),
                *self._causes(width),
                *self._evidence(),
                *self._store(width),
                *self._events(width),
            ]
            if self.passes(row[0]) or not row[0]
        ]
        lines.show(len(self._rows), self._line, cursor_style=self.palette.cursor)

    def _findings(self, width: int) -> list[Row]:
        run, palette = self.state.run, self.palette
        assert run is not None
        rows: list[Row] = [("what stands out", palette.strong, None)]
        found, word, told_before = findings(run), verdict(run), set[int]()
        if not found:
            told = f"{GLYPHS[word]} {word}  nothing: {len(run.steps)} steps looked at"
            rows.append((told, palette.level(word), None))
        for finding in found:
            known = self._key(finding) in self.state.acknowledged
            style = palette.dim if known else palette.level(level(finding))
            head = f"{GLYPHS[level(finding)]} {level(finding)}{' (acknowledged)' if known else ''}: {finding.line}"
            rows += [(line, style, finding) for line in wrap(head, width)]
            before = just_before(run, finding.since) if finding.since not in told_before else []
            told_before.add(finding.since)
            rows += [
                (f"    {GLYPHS['watch']} just before: {text}", palette.watch, finding) for text in before
            ]
        return rows

    def _causes(self, width: int) -> list[Row]:
        run, palette = self.state.run, self.palette
        assert run is not None
        rows: list[Row] = []
        for hypothesis in run.diagnosis.hypotheses[:3]:
            told = f"{hypothesis.name}: {hypothesis.text}"
            check = f"next: {hypothesis.next_check} Here: {where(hypothesis)}"
            rows += [(line, palette.text, None) for line in wrap(told, width)]
            because = f"because of {', '.join(hypothesis.evidence)}"
            rows += [(f"    {line}", palette.dim, None) for line in wrap(because, width - 4)]
            rows += [(f"    {line}", palette.dim, None) for line in wrap(check, width - 4)]
        return (
            [("", palette.dim, None), ("what may be behind it", palette.strong, None), *rows] if rows else []
        )

    def _evidence(self) -> list[Row]:
        run, palette = self.state.run, self.palette
        assert run is not None
        if not any(row.n for row in run.diagnosis.evidence):
            return []
        titles = f"{'evidence (|t| < 2 is noise)':<28}{'first 5':>11}{'last 5':>11}{'t':>11}"
        return [
            ("", palette.dim, None),
            (titles, palette.strong, None),
            *(
                (
                    f"{r.metric:<28}{number(r.first):>11}{number(r.last):>11}{number(r.t):>11}",
                    palette.text,
                    None,
                )
                for r in run.diagnosis.evidence
            ),
        ]

    def _store(self, width: int) -> list[Row]:
        run, palette = self.state.run, self.palette
        assert run is not None
        rows: list[Row] = [
            ("", palette.dim, None),
            ("jobs and store", palette.strong, None),
        ]
        last = next((event for event in reversed(run.events) if event.kind == HEARTBEAT), None)
        if last is not None:
            said = {key: one_line(last.fields.get(key, "?"), 40) for key in ("step", "verdict", "action")}
            told = f"watchdog: {said['verdict']} at step {said['step']}, policy {said['action']}"
            rows.append((told, palette.text, None))
        for note in run.diagnosis.data_quality:
            rows += [(line, palette.dim, None) for line in wrap(note, width)]
        if run.newer:
            rows.append((f"{GLYPHS['watch']} {run.newer}", palette.watch, None))
        if run.reason:
            told = f"{GLYPHS['watch']} ended {run.status}: {one_line(run.reason, 300)}"
            rows += [(line, palette.watch, None) for line in wrap(told, width)]
        if run.num_broken:
            rows.append((f"{GLYPHS['watch']} {run.num_broken} lines could not be read", palette.watch, None))
            rows += [(f"    {one_line(text, 200)}", palette.dim, None) for text in list(run.complaints)[-5:]]
        rows.append(
            ("no validation job is recorded in this run: lego validate RECIPE makes one", palette.dim, None)
        )
        return rows

    def _events(self, width: int) -> list[Row]:
        run, palette = self.state.run, self.palette
        assert run is not None
        rows: list[Row] = [
            ("", palette.dim, None),
            ("events, newest first", palette.strong, None),
        ]
        events = run.events
        shown = [e for e in reversed(events) if e.kind not in _QUIET or self.filter][:_MAX_EVENTS]
        for event in shown:
            level = _LOUD.get(event.kind)
            style = palette.level(level) if level else palette.text
            glyph = GLYPHS[level] + " " if level else ""
            rows.append(
                (
                    one_line(
                        f"{clock(event.time, '%m-%d %H:%M:%S')}  {glyph}{event.kind}  {facts(event.fields)}",
                        width,
                    ),
                    style,
                    None,
                )
            )
        hidden = len(events) - len(shown)
        if hidden and not self.filter:
            rows.append(
                (f"{hidden} stages and checkpoints are left out: / shows them too", palette.dim, None)
            )
        return rows

    def _line(self, number: int, width: int) -> Text:
        text, style, _ = self._rows[number]
        return Text(text, style, no_wrap=True, overflow="ellipsis")

    @staticmethod
    def _key(finding: Finding) -> str:
        return f"{finding.key}/{finding.since}"

    def _selected(self) -> Finding | None:
        row = self.query_one(Lines).cursor
        return self._rows[row][2] if row < len(self._rows) else None

    def on_lines_chosen(self) -> None:
        if finding := self._selected():
            self.state.metric = series_name(finding)
            self.state.step = finding.since
            self.shell.go("run")

    def action_acknowledge(self) -> None:
        if finding := self._selected():
            self.state.acknowledged.symmetric_difference_update({self._key(finding)})
            self.draw()
        else:
            self.shell.say("put the cursor on a finding first")

    def action_command(self, command: str) -> None:
        run = self.state.run
        self.shell.say("in a shell: " + command.replace("RUN", str(run.layout.root) if run else "RUN"))
