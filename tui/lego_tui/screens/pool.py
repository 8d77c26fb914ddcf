"""The task pool: how often each task is solved, at its first and at its last visit (the paper's Figures 5 and 8)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.text import Text
from textual.app import ComposeResult

from lego_tui.feed.index import Index
from lego_tui.grid import Cell, Column, lay_out
from lego_tui.plot import Scale, spark
from lego_tui.safe import one_line
from lego_tui.screens.page import Page
from lego_tui.widgets.facts import Facts
from lego_tui.widgets.lines import Lines

_COLUMNS = (
    Column(title="task", width=16, grows=True),
    Column(title="visits", width=6, right=True, rank=2),
    Column(title="first", width=6, right=True),
    Column(title="last", width=6, right=True),
    Column(title="change", width=7, right=True, rank=1),
    Column(title="by visit", width=14, rank=3),
    Column(title="failed", width=6, right=True, rank=4),
    Column(title="says", width=22, rank=5),
)

_RATES = Scale(low=0.0, high=1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Visits:
    """`[v]` every visit of every task, by task and step; a visit is a group. Plain lists, which collect no garbage."""

    steps: list[int]
    rates: list[float]
    """Share that was solved; NaN where nothing was graded."""
    sizes: list[int]
    """Graded rollouts."""
    solved: list[int]
    failed: list[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskRow:
    """One task: a stretch of the visits."""

    task: str
    of: Visits
    begin: int
    end: int

    @property
    def num_visits(self) -> int:
        return self.end - self.begin

    @property
    def rates(self) -> list[float]:
        return self.of.rates[self.begin : self.end]

    @property
    def first(self) -> float:
        return self.of.rates[self.begin]

    @property
    def last(self) -> float:
        return self.of.rates[self.end - 1]

    @property
    def failed(self) -> int:
        return sum(self.of.failed[self.begin : self.end])

    @property
    def says(self) -> str:
        graded = [r for r in self.rates if r == r]
        if not graded:
            return "never graded"
        if all(r == 0 for r in graded):
            return "never solved: no signal"
        if all(r == 1 for r in graded):
            return "always solved: no signal"
        return ""


class PoolPage(Page):
    """Screen 7."""

    NAME, BACK = "pool", "run"
    KEYS = (("enter", "newest group"), (",.", "sort"), ("o", "order"), ("/", "filter"), ("?", "help"))

    def compose(self) -> ComposeResult:
        self._rows: list[TaskRow] = []
        self._all: list[TaskRow] = []
        yield Facts(id="pool-facts")
        yield Lines(id="pool-lines")

    def draw(self) -> None:
        run, palette, lines = self.state.run, self.palette, self.query_one(Lines)
        if run is None or not len(run.index):
            self.query_one(Facts).show()
            lines.show(1, self.note("no rollout is recorded yet: tasks appear with their first group"))
            return
        self._all = run.index_at_step("tasks", count_tasks)
        self._rows = [row for row in self._all if not self.filter or self.passes(f"{row.task} {row.says}")]
        keys: tuple[Callable[[TaskRow], float | str], ...] = (
            lambda r: r.task, lambda r: r.num_visits, lambda r: _low(r.first), lambda r: _low(r.last),
            lambda r: _low(r.last - r.first), lambda r: _low(r.last), lambda r: r.failed, lambda r: r.says,
        )  # fmt: skip
        self._rows.sort(key=keys[self.sort % len(keys)], reverse=self.descending)
        self.query_one(Facts).show(self._facts())
        lines.show(
            len(self._rows),
            self._line,
            header=lambda width: lay_out(_COLUMNS, width).header(palette.dim, self.sort, self.descending),
            cursor_style=palette.cursor,
        )

    def _facts(self) -> Text:
        """Figure 5: tasks by number of successes, at the first and at the last visit."""
        palette, rows = self.palette, self._all
        text = Text(no_wrap=True, overflow="ellipsis")
        size = max(rows[0].of.sizes) if rows else 0
        ends = (("first visit", [r.begin for r in rows]), ("last visit ", [r.end - 1 for r in rows]))
        for label, places in ends:
            counts = Counter(rows[0].of.solved[at] for at in places if rows[0].of.sizes[at])
            total = sum(counts.values()) or 1
            bars = spark(np.array([counts.get(k, 0) for k in range(size + 1)], float), size + 1)
            dead = (counts.get(0, 0) + counts.get(size, 0)) / total
            text.append(f"{label}  solved 0…{size} of {size}: ", palette.dim)
            text.append(bars, palette.accent)
            text.append(f"  none {counts.get(0, 0)}  all {counts.get(size, 0)}  ", palette.text)
            text.append(f"{dead:.0%} without signal\n", palette.watch if dead > 0.6 else palette.dim)
        return text

    def orders(self) -> Sequence[int]:
        return range(len(_COLUMNS))

    def _line(self, number: int, width: int) -> Text:
        row, palette = self._rows[number], self.palette
        change = row.last - row.first
        style = palette.ok if change > 0 else palette.bad if change < 0 else palette.dim
        arrow = "↑" if change > 0 else "↓" if change < 0 else " "
        cells: list[Cell] = [
            (one_line(row.task, 80), palette.strong),
            (str(row.num_visits), palette.text),
            (_percent(row.first), palette.text),
            (_percent(row.last), palette.strong),
            (f"{arrow}{abs(change):.0%}" if change == change and row.num_visits > 1 else "–", style),
            (spark(np.array(row.rates), min(row.num_visits, 14), _RATES), palette.accent),
            (str(row.failed or ""), palette.watch),
            (row.says, palette.dim),
        ]
        return lay_out(_COLUMNS, width).row(cells)

    def on_lines_chosen(self) -> None:
        number, run = self.query_one(Lines).cursor, self.state.run
        if run is None or number >= len(self._rows):
            return
        row = self._rows[number]
        self.state.step = row.of.steps[row.end - 1]
        for name, entries in run.index.groups(self.state.step).items():
            if entries[0].task == row.task:
                self.state.group, self.state.rollout = name, ""
        self.shell.go("group")

    def handle(self) -> str:
        number = self.query_one(Lines).cursor
        return self._rows[number].task if number < len(self._rows) else ""


def count_tasks(index: Index) -> list[TaskRow]:
    """Visits of every training task, from the index alone; columns only, so that 320,000 rollouts take a moment."""
    found = index.by_task()
    edges: list[int] = np.flatnonzero(np.diff(found.what, prepend=-1, append=-1)).tolist()
    rate = np.divide(found.solved, found.graded, out=np.full(len(found.step), np.nan), where=found.graded > 0)
    visits = Visits(
        steps=found.step.tolist(),
        rates=rate.tolist(),
        sizes=found.graded.tolist(),
        solved=found.solved.tolist(),
        failed=found.ungraded.tolist(),
    )
    return [
        TaskRow(task=index.tasks.list[int(found.what[a])], of=visits, begin=a, end=b)
        for a, b in itertools.pairwise(edges)
    ]


def _percent(value: float) -> str:
    return "–" if value != value else f"{value:.0%}"


def _low(value: float) -> float:
    return -9.0 if value != value else value
