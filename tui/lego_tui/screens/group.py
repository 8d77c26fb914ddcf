"""The siblings of one task in one step, next to each other: a strip of turns each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lego_tui.feed.index import Entry
from lego_tui.feed.trajectory import Rollout
from lego_tui.grid import Cell, Column, lay_out
from lego_tui.metrics import show
from lego_tui.safe import one_line
from lego_tui.screens.marks import legend, mark, strip
from lego_tui.screens.page import Page
from lego_tui.widgets.facts import Facts
from lego_tui.widgets.lines import Lines

_COLUMNS = (
    Column(title="rollout", width=9),
    Column(title="reward", width=8, right=True),
    Column(title="turns", width=5, right=True, rank=1),
    Column(title="tokens", width=7, right=True, rank=3),
    Column(title="tests", width=7, right=True, rank=2),
    Column(title="patch", width=6, right=True, rank=4),
    Column(title="what it did, turn by turn", width=16, grows=True),
    Column(title="ended, findings", width=22, grows=True, rank=1),
)


class GroupPage(Page):
    """Between step and trajectory."""

    NAME, BACK = "group", "step"
    KEYS = (("enter", "read"), ("d", "diff"), ("[ ]", "group"), ("y", "copy"), ("esc", "step"), ("?", "help"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "shift(-1)", "group before"),
        Binding("right_square_bracket", "shift(1)", "next group"),
        Binding("d", "diff", "diff"),
    ]

    def compose(self) -> ComposeResult:
        self._shown: list[Entry] = []
        yield Facts(id="group-facts")
        yield Lines(id="group-lines")
        yield Lines(has_cursor=False, id="group-preview")
        yield Facts(id="group-legend")

    def draw(self) -> None:
        palette, lines = self.palette, self.query_one("#group-lines", Lines)
        entries = self._entries()
        self._shown = [e for e in entries if self.passes(f"{e.id} {e.stop_reason} {self._says(e)}")]
        self.query_one("#group-legend", Facts).show(legend(palette))
        facts = Text(no_wrap=True, overflow="ellipsis")
        if entries:
            rewards = [e.reward for e in entries if e.reward == e.reward]
            mean = sum(rewards) / len(rewards) if rewards else float("nan")
            facts.append(f"{self.state.group} of step {self.state.step_now}", palette.strong)
            facts.append(f"  task {one_line(entries[0].task, 60)}", palette.text)
            facts.append(f"  mean reward {show('reward_mean', mean)}", palette.text)
            epoch = next((r.epoch for e in entries if (r := self._open(e))), None)
            facts.append(f"  epoch {epoch}" if epoch is not None else "", palette.dim)
        self.query_one("#group-facts", Facts).show(facts)
        if not self._shown:
            lines.show(1, self.note("no rollout here: choose a group on screen 3"))
            return
        lines.show(
            len(self._shown),
            self._line,
            header=lambda width: lay_out(_COLUMNS, width).header(palette.dim),
            cursor_style=palette.cursor,
        )
        room = (self.size.height - 2) // 2 if self.size.height >= 20 else self.size.height
        lines.styles.height = max(min(len(self._shown) + 2, room), 3)
        self._preview()

    def _preview(self) -> None:
        """What the rollout under the cursor did, a command a line."""
        lines, entry, reading, palette = (
            self.query_one("#group-preview", Lines),
            self.selected(),
            self.state.reading,
            self.palette,
        )
        lines.display = self.size.height >= 20
        known = reading.known(entry.id) if entry and reading else None
        rows: list[Text] = [Text(f"── {entry.id if entry else ''}: what it did ──", palette.dim)]
        rows += [Text(f"▲ {f.what}: {f.evidence}", palette.bad) for f in (known.findings if known else ())]
        if known and (known.error or known.complaint):
            rows.append(Text(one_line(known.error or known.complaint), palette.bad))
        for number, action in enumerate(known.actions if known else (), 1):
            rows.append(
                Text.assemble(
                    (f"{number:>3} {action.kind:10}", palette.kinds[action.kind]),
                    (one_line(action.command, 300), palette.text),
                )
            )
        lines.show(len(rows), lambda number, width: rows[number].copy())

    def on_lines_moved(self) -> None:
        self._preview()

    def _open(self, entry: Entry) -> Rollout | None:
        return self.state.reading.open_now(entry.id) if self.state.reading else None

    def _entries(self) -> list[Entry]:
        run, step = self.state.run, self.state.step_now
        if run is None or step is None:
            return []
        groups = run.index.groups(step)
        if self.state.group not in groups and groups:
            self.state.group = next(iter(groups))
        return groups.get(self.state.group, [])

    def needs(self) -> Callable[[], object] | None:
        reading = self.state.reading
        if reading is None:
            return None
        missing = reading.missing(self._entries())
        return partial(reading.read_details, missing) if missing else None

    def _says(self, entry: Entry) -> str:
        known = self.state.reading.known(entry.id) if self.state.reading else None
        if known is None:
            return ""
        return "; ".join([*(f.what for f in known.findings), known.error, known.complaint]).strip("; ")

    def _line(self, number: int, width: int) -> Text:
        entry, palette = self._shown[number], self.palette
        reading = self.state.reading
        known = reading.known(entry.id) if reading else None
        grid = lay_out(_COLUMNS, width)
        room = next((w for place, _, w in grid.shown if place == 6), 16)
        sign, style = mark(entry, palette)
        ended = entry.stop_reason.replace("_", " ")
        says = self._says(entry)
        tests = f"{known.tests_passed}/{known.tests}" if known and known.tests else "–"
        cells: list[Cell] = [
            (entry.id.rpartition(".")[2] or entry.id, palette.strong),
            (f"{sign} {show('reward_mean', entry.reward)}", style),
            (str(known.num_turns) if known else "…", palette.text),
            (f"{entry.sampled:,}", palette.text),
            (tests, palette.text),
            (f"{known.patch_lines}" if known else "…", palette.text),
            strip(known.actions, palette, room) if known else Text("…", palette.dim),
            Text.assemble((f"{ended}  ", palette.dim), (one_line(says, 200), palette.bad), end=""),
        ]
        return grid.row(cells)

    def selected(self) -> Entry | None:
        number = self.query_one("#group-lines", Lines).cursor
        return self._shown[number] if number < len(self._shown) else None

    def handle(self) -> str:
        entry = self.selected()
        return entry.id if entry else ""

    def on_lines_chosen(self) -> None:
        if entry := self.selected():
            self.state.rollout = entry.id
            self.shell.go("trajectory")

    def action_diff(self) -> None:
        if entry := self.selected():
            self.state.rollout = entry.id
            self.shell.go("trajectory", view="diff")

    def action_shift(self, by: int) -> None:
        run, step = self.state.run, self.state.step_now
        if run is None or step is None:
            return
        names = list(run.index.groups(step))
        if names:
            here = names.index(self.state.group) if self.state.group in names else 0
            self.state.group = names[(here + by) % len(names)]
            self.shell.draw()
