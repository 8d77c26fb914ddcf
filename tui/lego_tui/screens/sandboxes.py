"""How rollouts ended and where their time went: which boundary failed, since when, with what message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np
from rich.text import Text
from textual.app import ComposeResult

from lego_tui.feed.index import Entry, Index
from lego_tui.grid import Cell, Column, lay_out
from lego_tui.plot import rate_scale, spark
from lego_tui.safe import one_line
from lego_tui.screens.page import Page
from lego_tui.widgets.facts import Facts
from lego_tui.widgets.lines import Lines

_COLUMNS = (
    Column(title="ended", width=18),
    Column(title="rollouts", width=8, right=True),
    Column(title="share", width=6, right=True),
    Column(title="first half", width=10, right=True, rank=2),
    Column(title="last steps", width=10, right=True, rank=1),
    Column(title="share by step", width=16, grows=True, rank=3),
)
_MAX_FAILURES = 60


class SandboxesPage(Page):
    """Screen 6."""

    NAME, BACK = "sandboxes", "run"
    KEYS = (("enter", "open rollout"), ("/", "filter"), ("?", "help"))
    BINDINGS: ClassVar = []

    def compose(self) -> ComposeResult:
        self._failures: list[Entry] = []
        self._ends: list[tuple[str, np.ndarray]] = []
        yield Facts(id="sandboxes-stages")
        yield Lines(has_cursor=False, id="sandboxes-ends")
        yield Facts(id="sandboxes-title")
        yield Lines(id="sandboxes-failures")

    def draw(self) -> None:
        run, palette = self.state.run, self.palette
        ends, failures = (
            self.query_one("#sandboxes-ends", Lines),
            self.query_one("#sandboxes-failures", Lines),
        )
        title = self.query_one("#sandboxes-title", Facts)
        if run is None or not len(run.index):
            ends.show(1, self.note("no rollout is recorded: each appears when it has ended"))
            failures.show(0, self.note(""))
            return
        self._ends = run.index_at_step("ends", count_ends)
        ends.styles.height = min(len(self._ends) + 1, max(self.size.height // 2, 3))
        ends.show(
            len(self._ends), self._end, header=lambda width: lay_out(_COLUMNS, width).header(palette.dim)
        )
        self._stages()
        self._failures = [
            e
            for e in run.index.failures(_MAX_FAILURES)
            if self.passes(f"{e.id} {e.stop_reason} {self._message(e)}")
        ]
        title.show(self._title())
        if self._failures:
            failures.show(len(self._failures), self._failure, cursor_style=palette.cursor)
        else:
            failures.show(
                1,
                self.note(
                    "no rollout failed outside the policy" if not self.filter else "none passes the filter"
                ),
            )

    def _end(self, number: int, width: int) -> Text:
        name, (share, counts) = self._ends[number]
        palette, grid = self.palette, lay_out(_COLUMNS, width)
        total = sum(c[1].sum() for _, c in self._ends)
        late = _mean(share[-5:])
        early = _mean(share[: max(len(share) // 2, 1)])
        bad = name.startswith("failed") or name in ("timeout", "cancelled")
        style = palette.bad if bad and late > 0.05 else palette.watch if bad else palette.text
        room = next((w for place, _, w in grid.shown if place == 5), 16)
        cells: list[Cell] = [
            (one_line(name, 40).replace("_", " "), style),
            (f"{int(counts.sum()):,}", palette.text),
            (f"{counts.sum() / total:.1%}", palette.text),
            (f"{early:.1%}", palette.dim),
            (f"{late:.1%}", style),
            (spark(share, room, rate_scale(share)), style),
        ]
        return grid.row(cells)

    def _stages(self) -> None:
        """Where the time of the step's rollouts went."""
        run, reading, palette, step = self.state.run, self.state.reading, self.palette, self.state.step_now
        line = Text(no_wrap=True, overflow="ellipsis")
        if run is not None and reading is not None and step is not None:
            known = [d for e in run.index.of_step(step) if (d := reading.known(e.id))]
            names = dict.fromkeys(name for d in known for name in d.timings)
            line.append(f"step {step}, median seconds of a rollout:", palette.dim)
            line.append("\n" if self.size.width < 110 else " ")
            for name in names:
                values = [d.timings[name] for d in known if name in d.timings]
                line.append(f"{one_line(name, 20)} ", palette.dim)
                line.append(f"{np.median(values):.1f}  ", palette.strong)
            if not names:
                line.append("reading …" if self.needs() else "no stage was recorded", palette.dim)
        self.query_one("#sandboxes-stages", Facts).show(line)

    def _title(self) -> Text:
        messages = Counter(m for e in self._failures if (m := self._message(e)))
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(
            f"\nthe newest {len(self._failures)} failures" if self._failures else "\nfailures",
            self.palette.strong,
        )
        if messages:
            message, count = messages.most_common(1)[0]
            line.append(f"   {count}× ", self.palette.bad)
            line.append(one_line(message, 200), self.palette.bad)
        return line

    def _message(self, entry: Entry) -> str:
        known = self.state.reading.known(entry.id) if self.state.reading else None
        return one_line(known.error or known.complaint, 200) if known else ""

    def needs(self) -> Callable[[], object] | None:
        run, reading, step = self.state.run, self.state.reading, self.state.step_now
        if run is None or reading is None:
            return None
        wanted = [
            *run.index.failures(_MAX_FAILURES),
            *(run.index.of_step(step)[:32] if step is not None else []),
        ]
        missing = reading.missing(wanted)
        return partial(reading.read_details, missing[:16]) if missing else None

    def _failure(self, number: int, width: int) -> Text:
        entry, palette = self._failures[number], self.palette
        line = Text(no_wrap=True, overflow="ellipsis", end="")
        line.append(f"{one_line(entry.id, 24):20} ", palette.strong)
        line.append(f"{entry.stop_reason.replace('_', ' '):16} ", palette.bad)
        line.append(f"{one_line(entry.task, 30):14} ", palette.dim)
        line.append(self._message(entry) or "…", palette.text)
        return line

    def on_lines_chosen(self) -> None:
        lines = self.query_one("#sandboxes-failures", Lines)
        if lines.cursor < len(self._failures):
            self.shell.open_rollout(self._failures[lines.cursor].id, back=self.NAME)

    def handle(self) -> str:
        lines = self.query_one("#sandboxes-failures", Lines)
        return self._failures[lines.cursor].id if lines.cursor < len(self._failures) else ""


def count_ends(index: Index) -> list[tuple[str, np.ndarray]]:
    """Share and number of each way to end by step (evaluations left out), the most frequent first."""
    ended = index.by_ending()
    counts = ended.graded + ended.ungraded
    steps, place = np.unique(ended.step, return_inverse=True)  # a step may have any number
    totals = np.bincount(place, counts, len(steps))
    found: list[tuple[str, np.ndarray]] = []
    for code in map(int, np.unique(ended.what).tolist()):
        mine = ended.what == code
        per_step = np.bincount(place[mine], counts[mine], len(steps))
        found.append((index.stops.list[code], np.array([per_step / totals, per_step])))
    return sorted(found, key=lambda item: -item[1][1].sum())


def _mean(values: np.ndarray) -> float:
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else 0.0
