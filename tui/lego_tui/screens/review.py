"""The review queue (the paper's fifth stage): rollouts with a reason to look, read and labelled from here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lego_tui.feed.index import Entry
from lego_tui.feed.run import RunFeed
from lego_tui.grid import Cell, Column, lay_out
from lego_tui.labelling import ask_label, give_label
from lego_tui.metrics import show
from lego_tui.palette import GLYPHS
from lego_tui.reviewing import Item, looked, queue, to_open
from lego_tui.safe import one_line, wrap
from lego_tui.screens.page import OWN_ORDER, Page
from lego_tui.widgets.facts import Facts
from lego_tui.widgets.lines import Lines

_COLUMNS = (
    Column(title="why", width=4, right=True),
    Column(title="rollout", width=16),
    Column(title="reward", width=7, right=True),
    Column(title="label", width=13),
    Column(title="task", width=14, rank=2),
    Column(title="reasons to look", width=20, grows=True, rank=1),
)
_BATCH = 64
"""Rollouts that are opened between two redraws."""


class ReviewPage(Page):
    """Screen 8."""

    NAME, BACK = "review", "run"
    KEYS = (("enter", "read"), ("eE", "label"), ("z", "hide labelled"), (",.", "sort"), ("/", "filter"), ("?", "help"))  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "label('label')", "label"),
        Binding("E", "label('exclude')", "label, and exclude its task"),
        Binding("z", "labelled", "hide what is labelled"),
    ]

    def compose(self) -> ComposeResult:
        self._all: list[Item] = []
        self._items: list[Item] = []
        self._hides_labelled = False
        self._entries: list[Entry] = []
        self._wanted_of: tuple[str, int, int | None] = ("", -1, None)
        yield Facts(id="review-facts")
        yield Lines(id="review-lines")
        yield Lines(has_cursor=False, id="review-preview")

    def draw(self) -> None:
        run, palette, lines = self.state.run, self.palette, self.query_one("#review-lines", Lines)
        if run is None or not len(run.index):
            self._all = self._items = []
            self.query_one(Facts).show()
            lines.show(1, self.note("no rollout is recorded yet: the queue is made of rollouts"))
            self._preview()
            return
        self._look(run)
        self._items = [item for item in self._all if self._is_shown(item)]
        if self.sort != OWN_ORDER:
            self._items.sort(key=_KEYS[self.sort], reverse=self.descending)
        elif self.descending:
            self._items.reverse()
        room = self.size.height // 2 if self.size.height >= 16 else self.size.height
        lines.styles.height = max(min(len(self._items) + 2, room), 3)
        if self._items:
            lines.show(len(self._items), self._line, header=self._header, cursor_style=palette.cursor)
        else:
            why = "hidden by z or the filter" if self._all else "nothing so far that a person should look at"
            lines.show(1, self.note(why))
        self._preview()

    def _header(self, width: int) -> Text:
        return lay_out(_COLUMNS, width).header(self.palette.dim, self.sort, self.descending)

    def _look(self, run: RunFeed) -> None:
        """Make the queue from what was opened, and say how much that is."""
        palette, reading, wanted = self.palette, self.state.reading, self._wanted()
        known = looked(reading, wanted) if reading else []
        self._all = queue(known, run.labels)
        done = sum(bool(item.label) for item in self._all)
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"{len(self._all) - done} to look at", palette.strong)
        line.append(f"  {done} labelled   opened {len(known):,} of {len(run.index):,} rollouts", palette.dim)
        if self.needs():
            line.append("   reading …", palette.watch)
        elif len(wanted) < len(run.index):
            line.append("   (whole steps, evenly; evaluations are left out)", palette.dim)
        self.query_one(Facts).show(line)

    def _is_shown(self, item: Item) -> bool:
        text = f"{item.rollout} {item.task} {item.label} {' '.join(item.reasons)}"
        return not (self._hides_labelled and item.label) and self.passes(text)

    def _wanted(self) -> list[Entry]:
        run, step = self.state.run, self.state.step_now
        if run is None:
            return []
        if self._wanted_of != (run.name, run.version, step):
            self._wanted_of, self._entries = (run.name, run.version, step), to_open(run, step)
        return self._entries

    def needs(self) -> Callable[[], object] | None:
        reading = self.state.reading
        missing = reading.missing(self._wanted()) if reading else []
        return partial(reading.read_details, missing[:_BATCH]) if reading and missing else None

    def _line(self, number: int, width: int) -> Text:
        item, palette = self._items[number], self.palette
        reward = math.nan if item.reward is None else item.reward
        cells: list[Cell] = [
            (str(len(item.reasons)), palette.watch if not item.label else palette.dim),
            (one_line(item.rollout, 40), palette.strong),
            (show("reward_mean", reward), palette.text),
            (item.label.replace("_", " ") or "–", palette.ok if item.label else palette.dim),
            (one_line(item.task, 60), palette.text),
            (one_line("; ".join(item.reasons), 300), palette.text if not item.label else palette.dim),
        ]
        return lay_out(_COLUMNS, width).row(cells)

    def _preview(self) -> None:
        """Every reason for the rollout under the cursor, and what was said about it."""
        lines, item, run, palette = (
            self.query_one("#review-preview", Lines),
            self._selected(),
            self.state.run,
            self.palette,
        )
        lines.display = self.size.height >= 16
        width, rows = max(self.size.width - 4, 10), list[tuple[str, Style]]()
        if item and run:
            rows.append((f"── {one_line(item.rollout, 60)}: why a person should look ──", palette.dim))
            for reason in item.reasons:
                rows += [
                    (f"{' ' if n else GLYPHS['watch']} {line}", palette.watch)
                    for n, line in enumerate(wrap(reason, width))
                ]
            if said := run.labels.get(item.rollout):
                told = f"labelled {said.label}{' (exclude its task)' * said.exclude} by {said.who}: {said.note or 'no reason given'}"
                rows += [(line, palette.text) for line in wrap(told, width)]
        lines.show(len(rows), lambda number, width: Text(*rows[number], no_wrap=True))

    def _selected(self) -> Item | None:
        number = self.query_one("#review-lines", Lines).cursor
        return self._items[number] if number < len(self._items) else None

    def handle(self) -> str:
        item = self._selected()
        return item.rollout if item else ""

    def orders(self) -> Sequence[int]:
        return (OWN_ORDER, *range(1, len(_COLUMNS)))  # which is that of the first column

    # --- keys -------------------------------------------------------------------------------

    def on_lines_moved(self) -> None:
        self._preview()

    def on_lines_chosen(self) -> None:
        if item := self._selected():
            self.shell.open_rollout(item.rollout, back=self.NAME)

    def action_labelled(self) -> None:
        self._hides_labelled = not self._hides_labelled
        self.draw()

    def action_label(self, purpose: str) -> None:
        if self._selected():
            ask_label(self.shell, purpose)

    def label(self, typed: str, *, exclude: bool) -> str:
        """Keep what was typed about the rollout under the cursor; returns the result in a sentence."""
        run, item = self.state.run, self._selected()
        entry = run.index.find(item.rollout) if run and item else None
        if run is None or entry is None:
            return "no rollout is chosen: nothing was labelled"
        said = give_label(run, entry, typed, exclude=exclude)
        self.draw()
        return said


_KEYS: tuple[Callable[[Item], float | str], ...] = (
    lambda item: len(item.reasons),
    lambda item: item.rollout,
    lambda item: math.inf if item.reward is None else item.reward,
    lambda item: item.label,
    lambda item: item.task,
    lambda item: item.reasons[0],
)
