"""One step: its groups, each with the fate of its rollouts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from lego_tui.feed.details import Details
from lego_tui.feed.index import Entry
from lego_tui.feed.run import RunFeed
from lego_tui.grid import Cell, Column, lay_out
from lego_tui.metrics import show
from lego_tui.safe import one_line
from lego_tui.screens.marks import LEGEND, legend, mark, strip
from lego_tui.screens.page import Page
from lego_tui.widgets.facts import Facts
from lego_tui.widgets.lines import Lines

_COLUMNS = (
    Column(title="group", width=6),
    Column(title="rollouts", width=12),
    Column(title="reward", width=6, right=True),
    Column(title="turns", width=9, right=True, rank=2),
    Column(title="tokens", width=8, right=True, rank=3),
    Column(title="trunc", width=5, right=True, rank=3),
    Column(title="malf.", width=5, right=True, rank=3),
    Column(title="flags", width=5, right=True, rank=2),
    Column(title="task", width=14, rank=1),
    Column(title="note", width=12, grows=True, rank=4),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRow:
    """What is known of a group."""

    name: str
    entries: list[Entry]
    details: list[Details]

    @property
    def rewards(self) -> list[float]:
        return [entry.reward for entry in self.entries if not math.isnan(entry.reward)]

    @property
    def mean(self) -> float:
        return float(np.mean(self.rewards)) if self.rewards else math.nan

    @property
    def is_flat(self) -> bool:
        return len(set(self.rewards)) <= 1

    @property
    def num_flags(self) -> int:
        return sum(bool(d.findings) for d in self.details)

    @property
    def note(self) -> str:
        failures = Counter(e.stop_reason for e in self.entries if e.is_failure)
        parts = [f"{count} {reason}" for reason, count in failures.items()]
        if self.is_flat and self.rewards:
            parts.insert(0, "no variance: nothing learned")
        return ", ".join(parts)


class StepPage(Page):
    """Screen 3."""

    NAME, BACK = "step", "run"
    KEYS = (
        ("enter", "siblings"),
        ("[ ]", "step"),
        ("z", "hide flat"),
        ("w", "worst first"),
        (",.", "sort"),
        ("?", "help"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "shift(-1)", "step before"),
        Binding("right_square_bracket", "shift(1)", "next step"),
        Binding("z", "flat", "hide groups without variance"),
        Binding("w", "worst", "worst first"),
    ]

    def compose(self) -> ComposeResult:
        self._rows: list[GroupRow] = []
        self._hides_flat = False
        yield Facts(id="step-facts")
        yield Lines(id="step-lines")
        yield Lines(has_cursor=False, id="step-preview")
        yield Facts(id="step-legend")

    def draw(self) -> None:
        run, palette, step = self.state.run, self.palette, self.state.step_now
        lines = self.query_one("#step-lines", Lines)
        self.query_one("#step-legend", Facts).show(
            Text(LEGEND, palette.dim, no_wrap=True, overflow="ellipsis")
        )
        if run is None or step is None:
            self.query_one("#step-facts", Facts).show()
            lines.show(1, self.note("no step yet: the first one appears when its rollouts are trained"))
            return
        self._facts(step)
        self._rows = self._groups(step)
        if not self._rows:
            lines.show(2, self.note(*self._why_nothing(run, step)))
            self._preview()
            return
        lines.show(
            len(self._rows),
            self._line,
            header=lambda width: lay_out(_COLUMNS, width).header(palette.dim, self.sort, self.descending),
            cursor_style=palette.cursor,
        )
        room = (self.size.height - 3) // 2 if self.size.height >= 20 else self.size.height
        lines.styles.height = max(min(len(self._rows) + 2, room), 3)
        self._preview()

    def _why_nothing(self, run: RunFeed, step: int) -> tuple[str, str]:
        if count := len(run.index.groups(step)):
            return (
                f"all {count} groups of this step are hidden",
                "z shows those without variance, esc ends the filter",
            )
        if run.is_behind:
            return "still reading the index", ""
        why = "trajectories/index.jsonl names no rollout of this step"
        return why, "the run directory was thinned out, or is of another release"

    def _preview(self) -> None:
        """The siblings of the group under the cursor, a strip of turns each."""
        lines, row, reading, palette = (
            self.query_one("#step-preview", Lines),
            self.selected(),
            self.state.reading,
            self.palette,
        )
        lines.display = self.size.height >= 20
        entries = row.entries if row and reading else []

        def line(number: int, width: int) -> Text:
            if not number or reading is None:
                return Text.assemble(
                    (f"── {row.name if row else ''}, turn by turn: ", palette.dim),
                    legend(palette),
                    end="",
                    no_wrap=True,
                )
            entry = entries[number - 1]
            known = reading.known(entry.id)
            text = Text(f"{entry.id.rpartition('.')[2]:6}", palette.dim, end="", no_wrap=True)
            text.append(*mark(entry, palette))
            text.append("  ")
            text.append_text(strip(known.actions, palette, max(width // 2, 10)) if known else Text("…"))
            says = "; ".join(f.what for f in known.findings) or known.error if known else ""
            text.append(f"   {one_line(says, 200)}", palette.bad)
            return text

        lines.show(len(entries) + 1, line)

    def on_lines_moved(self) -> None:
        self._preview()

    def _facts(self, step: int) -> None:
        run, palette = self.state.run, self.palette
        assert run is not None
        at = partial(run.steps.at, step)
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"step {step}", palette.strong)
        for name, label in (
            ("reward_mean", "reward"),
            ("entropy", "entropy"),
            ("pearson_r", "r"),
            ("grad_norm", "|g|"),
        ):
            line.append(f"  {label} ", palette.dim)
            line.append(show(name, at(name)), palette.text)
        line.append("  signal ", palette.dim)
        line.append(
            f"{show('n', at('groups') - at('zero_variance_groups'))}/{show('n', at('groups'))} groups",
            palette.text,
        )
        out = [(n.split(".", 1)[1], at(n)) for n in run.steps.names if n.startswith("dropped.") and at(n) > 0]
        line.append("\n")
        line.append("left out: ", palette.dim)
        text = (
            ", ".join(f"{count:.0f} {reason.removeprefix('ungraded:')}" for reason, count in out) or "nobody"
        )
        line.append(one_line(text, 200), palette.text)
        line.append("   tokens ", palette.dim)
        line.append(f"{show('n', at('trained'))} trained of {show('n', at('sampled'))}", palette.text)
        self.query_one("#step-facts", Facts).show(line)

    def _groups(self, step: int) -> list[GroupRow]:
        run, reading = self.state.run, self.state.reading
        assert run is not None
        assert reading is not None
        rows = [
            GroupRow(name=name, entries=entries, details=[d for e in entries if (d := reading.known(e.id))])
            for name, entries in run.index.groups(step).items()
        ]
        rows = [r for r in rows if not (self._hides_flat and r.is_flat)]
        rows = [
            r
            for r in rows
            if self.passes(
                f"{r.name} {r.note} {r.entries[0].task} {' '.join(e.stop_reason for e in r.entries)}"
            )
        ]
        return sorted(rows, key=_KEYS[self.sort], reverse=self.descending)

    def orders(self) -> Sequence[int]:
        return tuple(_KEYS)

    def needs(self) -> Callable[[], object] | None:
        run, reading, step = self.state.run, self.state.reading, self.state.step_now
        if run is None or reading is None or step is None:
            return None
        missing = reading.missing(run.index.of_step(step))
        return partial(reading.read_details, missing[:16]) if missing else None

    def _line(self, number: int, width: int) -> Text:
        row, palette = self._rows[number], self.palette
        signs = Text(end="", no_wrap=True)
        for entry in row.entries:
            signs.append(*mark(entry, palette))
        turns = [d.num_turns for d in row.details]
        spread = f"{np.mean(turns):.0f}±{np.std(turns):.0f}" if turns else "…"
        malformed = sum(d.num_malformed for d in row.details)
        truncated = sum(e.is_truncated for e in row.entries)
        known = bool(row.details)
        cells: list[Cell] = [
            (row.name, palette.strong),
            signs,
            (show("reward_mean", row.mean), palette.strong),
            (spread, palette.text),
            (f"{sum(e.sampled for e in row.entries):,}", palette.text),
            (str(truncated), palette.watch if truncated else palette.dim),
            (str(malformed) if known else "…", palette.watch if malformed else palette.dim),
            (str(row.num_flags) if known else "…", palette.bad if row.num_flags else palette.dim),
            (one_line(row.entries[0].task, 60), palette.text),
            (one_line(row.note, 200), palette.dim),
        ]
        return lay_out(_COLUMNS, width).row(cells)

    def selected(self) -> GroupRow | None:
        number = self.query_one("#step-lines", Lines).cursor
        return self._rows[number] if number < len(self._rows) else None

    def handle(self) -> str:
        row, step = self.selected(), self.state.step_now
        return f"s{step or 0:05d}.{row.name}" if row else ""

    def on_lines_chosen(self) -> None:
        if row := self.selected():
            self.state.step = self.state.step_now
            self.state.group = row.name
            self.state.rollout = ""
            self.shell.go("group")

    def action_shift(self, by: int) -> None:
        self.shell.shift_step(by)

    def action_flat(self) -> None:
        self._hides_flat = not self._hides_flat
        self.shell.draw()

    def action_worst(self) -> None:
        self.sort, self.descending = (2, False) if self.sort != 2 else (0, False)
        self.draw()


def _mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else -1.0


_KEYS: dict[int, Callable[[GroupRow], float | str]] = {
    0: lambda r: r.name,
    2: lambda r: -1.0 if math.isnan(r.mean) else r.mean,
    3: lambda r: _mean([d.num_turns for d in r.details]),
    4: lambda r: sum(e.sampled for e in r.entries),
    5: lambda r: sum(e.is_truncated for e in r.entries),
    6: lambda r: sum(d.num_malformed for d in r.details),
    7: lambda r: r.num_flags,
    8: lambda r: r.entries[0].task,
}
"""Column → what groups are ordered by."""
