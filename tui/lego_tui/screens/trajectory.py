"""One rollout: what was said and done, its tokens, its patch, and why it got its reward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from lego_tui import views
from lego_tui.feed.index import Entry
from lego_tui.feed.trajectory import Rollout
from lego_tui.labelling import ask_label, give_label
from lego_tui.metrics import show
from lego_tui.safe import one_line
from lego_tui.screens.marks import mark
from lego_tui.screens.page import Page
from lego_tui.token_rows import TokenRows
from lego_tui.tokenizer import Decoder
from lego_tui.views import Row
from lego_tui.widgets.facts import Facts
from lego_tui.widgets.lines import Lines

_WIDE = 110
"""From this width on, in cells, the verdict is shown next to the conversation."""


class TrajectoryPage(Page):
    """Screen 4."""

    NAME, BACK = "trajectory", "group"
    KEYS = (
        ("hl", "turn"),
        ("HL", "sibling"),
        ("t", "tokens"),
        ("r", "thinking"),
        ("d", "diff"),
        ("i", "verdict"),
        ("eE", "label"),
        ("/nN", "search"),
        ("?", "help"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("h,left", "turn(-1)", "turn before", priority=True),
        Binding("l,right", "turn(1)", "next turn", priority=True),
        Binding("H", "sibling(-1)", "sibling before"),
        Binding("L", "sibling(1)", "next sibling"),
        Binding("t", "view('tokens')", "tokens"),
        Binding("d", "view('diff')", "diff"),
        Binding("i", "view('verdict')", "verdict"),
        Binding("r", "thinking", "thinking"),
        Binding("e", "label('label')", "label"),
        Binding("E", "label('exclude')", "label, and exclude its task"),
        Binding("n", "hit(1)", "next hit"),
        Binding("N", "hit(-1)", "hit before"),
    ]

    def compose(self) -> ComposeResult:
        self.view = "conversation"
        self._thinking = True
        self._rows: Sequence[Row] = []
        self._turns: list[int] = []
        self._laid_out: object = None
        self._decoder = Decoder()
        self._went = (0, 0)
        yield Facts(id="trajectory-facts")
        with Horizontal():
            yield Lines(has_cursor=False, id="trajectory-lines")
            yield Lines(has_cursor=False, id="trajectory-side")

    # --- what is shown ----------------------------------------------------------------------

    def draw(self) -> None:
        rollout, palette = self._rollout(), self.palette
        lines, side = self.query_one("#trajectory-lines", Lines), self.query_one("#trajectory-side", Lines)
        side.display = self.size.width >= _WIDE and self.view != "verdict"
        entry = self._entry()
        if entry is None:
            self.query_one(Facts).show()
            lines.show(2, self.note("no rollout is chosen", "3 lists the groups of a step, enter opens them"))
            return
        if rollout is None:
            self._facts(entry, rollout)
            lines.show(1, self.note(f"reading {entry.length:,} bytes …"))
            return
        main = (self.size.width * 2 // 3 if side.display else self.size.width) - 1
        wanted = (rollout.id, self.view, main, self._thinking, self.shell.theme, self._decoder.version)
        if wanted != self._laid_out:
            self._lay_out(rollout, main)
            self._went = (0, 0)
            if self._laid_out is None or self._laid_out[:2] != wanted[:2]:  # type: ignore[index]
                lines.scroll_to(y=0, animate=False)
            self._laid_out = wanted
            facts = views.verdict(rollout, palette, self.size.width - main - 4)
            side.show(len(facts), lambda number, width: Text(facts[number].text, facts[number].style))
        self._facts(entry, rollout)
        lines.show(len(self._rows), self._line)

    def _lay_out(self, rollout: Rollout, width: int) -> None:
        palette = self.palette
        if self.view == "tokens":
            self._rows = TokenRows(rollout, palette, self._decoder.decode, self._gap(), width)
        elif self.view == "diff":
            self._rows = views.patch(rollout, self._best(), palette, width)
        elif self.view == "verdict":
            self._rows = views.verdict(rollout, palette, width)
        else:
            self._rows = views.conversation(rollout, palette, width, thinking=self._thinking)
            if not rollout.messages:
                self._rows = views.verdict(rollout, palette, width)
        rows = self._rows
        self._turns = rows.turns if isinstance(rows, TokenRows) else [row.turn for row in rows]

    def _gap(self) -> str:
        run, entry = self.state.run, self._entry()
        if run is None or entry is None or entry.step < 0:
            return "an evaluation is not recomputed by the trainer"
        gap = show("mean_abs_dlogp", run.steps.at(entry.step, "mean_abs_dlogp"))
        r = show("pearson_r", run.steps.at(entry.step, "pearson_r"))
        overlap = run.steps.at(entry.step, "expert_overlap")
        routes = f", replayed experts that are the trainer's own {show('expert_overlap', overlap)}"
        known = routes if overlap == overlap else ""
        return f"stored per step, not per token: mean |Δlogp| {gap}, Pearson r {r}{known}"

    def _facts(self, entry: Entry, rollout: Rollout | None) -> None:
        palette = self.palette
        sign, style = mark(entry, palette)
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"{one_line(entry.id, 60)} ", palette.strong)
        line.append(f"{sign} reward {show('reward_mean', entry.reward)} ", style)
        line.append(f" {entry.stop_reason.replace('_', ' ')}  task {one_line(entry.task, 60)}", palette.dim)
        if rollout is not None:
            here = self._turn_here()
            line.append(f"  turn {max(here + 1, 0)}/{len(rollout.turns)}", palette.text)
            known = self.state.reading.known(entry.id) if self.state.reading else None
            if known and known.findings:
                line.append(f"  ▲ {len(known.findings)} findings: i", palette.bad)
        run = self.state.run
        if said := run.labels.get(entry.id) if run else None:
            line.append(f"  labelled {said.label}{' (exclude)' * said.exclude}", palette.watch)
        line.append(f"   [{self.view}]", palette.accent)
        self.query_one(Facts).show(line)

    def _line(self, number: int, width: int) -> Text:
        row = self._rows[number]
        text = Text(row.text, row.style, no_wrap=True, end="")
        if self.filter and self.view != "diff":
            text.highlight_words(
                [self.filter], self.palette.watch + self.palette.cursor, case_sensitive=False
            )
        return text

    # --- what is read -----------------------------------------------------------------------

    def _entry(self) -> Entry | None:
        run = self.state.run
        if run is None:
            return None
        found = run.index.find(self.state.rollout) if self.state.rollout else None
        if found is None:
            siblings = self._siblings()
            found = siblings[0] if siblings else None
            self.state.rollout = found.id if found else ""
        return found

    def _siblings(self) -> list[Entry]:
        run, step = self.state.run, self.state.step_now
        if run is None or step is None:
            return []
        groups = run.index.groups(step)
        return groups.get(self.state.group) or next(iter(groups.values()), list[Entry]())

    def _rollout(self) -> Rollout | None:
        entry, reading = self._entry(), self.state.reading
        return reading.open_now(entry.id) if entry and reading else None

    def _best_entry(self) -> Entry | None:
        graded = [e for e in self._siblings() if e.reward == e.reward]
        best = max(graded, key=lambda e: e.reward, default=None)
        here = self._entry()
        return best if best and here and not here.reward >= best.reward else None

    def _best(self) -> Rollout | None:
        best, reading = self._best_entry(), self.state.reading
        return reading.open_now(best.id) if best and reading else None

    def needs(self) -> Callable[[], object] | None:
        entry, reading = self._entry(), self.state.reading
        if entry is None or reading is None:
            return None
        if reading.open_now(entry.id) is None:
            return partial(reading.read, entry)
        if self.view == "diff" and (best := self._best_entry()) and reading.open_now(best.id) is None:
            self._laid_out = None
            return partial(reading.read, best)
        path = self.state.run.knob("model", "path") if self.state.run else None
        if self.view == "tokens" and isinstance(path, str) and self._decoder.wants(Path(path)):
            return partial(self._decoder.load, Path(path))
        return None

    # --- keys -------------------------------------------------------------------------------

    def _turn_here(self) -> int:
        row = self._row_here()
        return self._turns[row] if row < len(self._turns) else -1

    def _row_here(self) -> int:
        """The row that a key went to, until another way of scrolling is used; else the first in sight."""
        top = round(self.query_one("#trajectory-lines", Lines).scroll_offset.y)
        went_to, top_then = self._went
        return went_to if top == top_then else top

    def _go(self, row: int) -> None:
        """To a row; behind the last screenful nothing scrolls, but that row is where the reader is."""
        lines = self.query_one("#trajectory-lines", Lines)
        self._went = (row, min(row, lines.max_scroll_y))
        lines.scroll_to(y=row, animate=False)
        self.call_after_refresh(self.draw)

    def action_turn(self, by: int) -> None:
        here = self._row_here()
        starts = [i for i, turn in enumerate(self._turns) if i == 0 or turn != self._turns[i - 1]]
        after = [i for i in starts if i > here] if by > 0 else [i for i in starts if i < here]
        if after:
            self._go(after[0] if by > 0 else after[-1])

    def action_sibling(self, by: int) -> None:
        siblings = self._siblings()
        ids = [e.id for e in siblings]
        if ids:
            here = ids.index(self.state.rollout) if self.state.rollout in ids else 0
            self.state.rollout = ids[(here + by) % len(ids)]
            self.shell.draw()

    def action_view(self, view: str) -> None:
        self.view = "conversation" if self.view == view else view
        self.shell.draw()

    def action_thinking(self) -> None:
        self._thinking = not self._thinking
        self.draw()

    def action_label(self, purpose: str) -> None:
        if self._entry() is not None:
            ask_label(self.shell, purpose)

    def label(self, typed: str, *, exclude: bool) -> str:
        """Keep what was typed about the rollout that is shown; returns the result in a sentence."""
        run, entry = self.state.run, self._entry()
        if run is None or entry is None:
            return "no rollout is chosen: nothing was labelled"
        said = give_label(run, entry, typed, exclude=exclude)
        self.draw()
        return said

    def action_hit(self, by: int) -> None:
        wanted, here = self.filter.lower(), self._row_here()
        hits = [i for i, row in enumerate(self._rows) if wanted and wanted in row.text.lower()]
        if not hits:
            self.shell.say(f"no hit for {self.filter!r}" if wanted else "search first: /")
            return
        after = [i for i in hits if i > here] if by > 0 else [i for i in reversed(hits) if i < here]
        self._go(after[0] if after else (hits[0] if by > 0 else hits[-1]))

    def handle(self) -> str:
        return self.state.rollout
