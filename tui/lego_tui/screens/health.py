"""What the detectors found in a run, what may be behind it, and what happened."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lego_core.health.findings import Finding, Hypothesis, number
from lego_core.health.watchdog import ALERT, HEARTBEAT
from lego_tui.feed.run import EventLine
from lego_tui.health import findings, just_before, level, look, passed, series_name, since, verdict, where
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
Row = tuple[str, Style, Finding | Hypothesis | None]


class HealthPage(Page):
    """Screen 5."""

    NAME, BACK = "health", "run"
    KEYS = (
        ("enter", "look there"),
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
                *self._causes(width),
                *self._findings(width),
                *self._passed(width),
                *self._evidence(),
                *self._store(width),
                *self._events(width),
            ]
            if self.passes(row[0]) or not row[0]
        ]
        lines.show(len(self._rows), self._line, cursor_style=self.palette.cursor)
        if lines.cursor == 0:  # a heading, which leads nowhere
            lines.move_to(next((n for n, row in enumerate(self._rows) if row[2]), 0))

    def _findings(self, width: int) -> list[Row]:
        run, palette = self.state.run, self.palette
        assert run is not None
        rows: list[Row] = [("what stands out", palette.strong, None)]
        found, word = findings(run), verdict(run)
        told_before = {since(run, hypothesis) for hypothesis in run.diagnosis.hypotheses[:1]}
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
        for place, hypothesis in enumerate(run.diagnosis.hypotheses[:3]):
            told = f"{hypothesis.name}: {hypothesis.text}"
            check = f"next: {hypothesis.next_check} Enter: {where(run, hypothesis)}"
            rows += [(line, palette.text, hypothesis) for line in wrap(told, width)]
            before = just_before(run, since(run, hypothesis)) if not place else []
            rows += [
                (f"    {GLYPHS['watch']} just before: {text}", palette.watch, hypothesis) for text in before
            ]
            because = f"because of {', '.join(hypothesis.evidence)}"
            rows += [(f"    {line}", palette.dim, hypothesis) for line in wrap(because, width - 4)]
            rows += [(f"    {line}", palette.dim, hypothesis) for line in wrap(check, width - 4)]
        return (
            [("what may be behind it", palette.strong, None), *rows, ("", palette.dim, None)] if rows else []
        )

    def _passed(self, width: int) -> list[Row]:
        run, palette = self.state.run, self.palette
        assert run is not None
        rows: list[Row] = [
            (line, palette.dim, None) for text in passed(run)[:8] for line in wrap(text, width)
        ]
        title: Row = ("what stood out for a while", palette.strong, None)
        return [("", palette.dim, None), title, *rows] if rows else []

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
                    one_line(f"{clock(event.time, '%m-%d %H:%M:%S')}  {glyph}{_told(event)}", width),
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

    def _selected(self) -> Finding | Hypothesis | None:
        row = self.query_one(Lines).cursor
        return self._rows[row][2] if row < len(self._rows) else None

    def on_lines_chosen(self) -> None:
        run, chosen = self.state.run, self._selected()
        if isinstance(chosen, Finding):
            self._show(chosen, chosen.since)
            self.shell.go("run")
        elif chosen and run:
            there = look(chosen)
            self._show(next(f for f in findings(run) if f.key in chosen.evidence), since(run, chosen))
            self.shell.go(there.page, view=there.view, back=self.NAME)

    def _show(self, finding: Finding, step: int) -> None:
        """Look at a metric, and at a step where that is one of the run: a first evaluation is none."""
        run, state = self.state.run, self.state
        state.metric = series_name(finding)
        state.step = step if run and step in run.steps.steps else None
        state.group, state.rollout = "", ""

    def action_acknowledge(self) -> None:
        if isinstance(finding := self._selected(), Finding):
            self.state.acknowledged.symmetric_difference_update({self._key(finding)})
            self.draw()
        else:
            self.shell.say("put the cursor on a finding first")

    def action_command(self, command: str) -> None:
        run = self.state.run
        self.shell.say("in a shell: " + command.replace("RUN", str(run.layout.root) if run else "RUN"))


def _told(event: EventLine) -> str:
    """An event in words: of an alert first what it is about and since when."""
    fields = event.fields
    if event.kind != ALERT:
        return f"{event.kind}  {facts(fields)}"
    about = f"{fields.get('metric')}/{fields.get('detector')} since step {fields.get('since')}"
    return f"alert {fields.get('state')} at step {fields.get('step')}: {about}: {fields.get('text')}"
