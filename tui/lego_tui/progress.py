"""Shows a run while it goes on: a panel that renews itself on a terminal, lines elsewhere.

A display gets `show(glance)` as often as the caller likes, and `note(line)` for the core's own messages.
Reads nothing and decides nothing.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lego_core.types import StepRecord
from lego_tui.glance import Glance
from lego_tui.safe import clean, one_line
from lego_tui.words import duration, number, percent, small, sparkline


class Display(Protocol):
    """Where a run is shown, for the length of a `with` block."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, glance: Glance) -> None:
        """Bring the display up to date."""
        ...

    def note(self, line: str) -> None:
        """A line next to the display; untrusted text, shown safely."""
        ...


def make_display(console: Console) -> Display:
    """A live panel if one can be drawn, plain lines otherwise."""
    return LiveDisplay(console) if can_redraw(console) else LineDisplay(console)


def can_redraw(console: Console) -> bool:
    """True on a terminal that can move its cursor; a file, a pipe and `TERM=dumb` cannot."""
    return console.is_terminal and not console.is_dumb_terminal


class LiveDisplay:
    """One panel, redrawn in place; notes scroll by above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, glance: Glance) -> None:
        self._live.update(panel(glance), refresh=True)

    def note(self, line: str) -> None:
        self._console.print(Text(clean(line)), soft_wrap=True)


class LineDisplay:
    """A line whenever a stage begins, a step is done or an evaluation has its result."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._seen = 0, 0, ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, glance: Glance) -> None:
        steps, heldout, stage = self._seen
        for record in glance.steps[steps:]:
            self.note(step_line(record, glance))
        for evaluation in glance.heldout[heldout:]:
            self.note(
                f"held-out at step {evaluation.step}: {percent(evaluation.solve_rate)} of {evaluation.n} solved"
            )
        if glance.stage != stage and not glance.steps:  # after the first step the steps are news enough
            self.note(glance.stage)
        self._seen = len(glance.steps), len(glance.heldout), glance.stage

    def note(self, line: str) -> None:
        self._console.print(Text(clean(line)), soft_wrap=True)


def step_line(record: StepRecord, glance: Glance) -> str:
    """One step in one line."""
    return (
        f"step {record.step}/{glance.total_steps}  reward {number(record.reward_mean)}  "
        f"solved {record.solved}/{record.rollouts}  groups with signal {signal(record)}  "
        f"{agreement(record)}  {record.tokens_per_s:.0f} tokens/s  left {duration(glance.seconds_left)}"
    )


def signal(record: StepRecord) -> str:
    """Groups that had something to learn from, out of all."""
    return f"{record.groups - record.zero_variance_groups}/{record.groups}"


def agreement(record: StepRecord) -> str:
    """How well trainer and engine agree on the sampled tokens."""
    return f"r {number(record.pearson_r, 5)}  |Δlogp| {small(record.mean_abs_dlogp)}"


def panel(glance: Glance) -> Panel:
    """The live picture of a run."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column()
    done = glance.steps[-1].step if glance.steps else 0
    rows.add_row("step", _bar(done, glance.total_steps, f"left {duration(glance.seconds_left)}"))
    rows.add_row("now", _stage(glance))
    if glance.beside:
        rows.add_row("beside it", Text(glance.beside))
    if glance.steps:
        _add_step(rows, glance)
    if glance.heldout:
        rates = " → ".join(percent(record.solve_rate) for record in glance.heldout)
        rows.add_row(
            "held-out", f"{rates} solved of {glance.heldout[-1].n}, by step {glance.heldout[-1].step}"
        )
    return Panel(rows, title=Text(glance.name), title_align="left", border_style="dim")


def _add_step(rows: Table, glance: Glance) -> None:
    last = glance.steps[-1]
    curve = sparkline([record.reward_mean for record in glance.steps])
    rows.add_row("reward", Text.assemble((number(last.reward_mean), "bold"), "  ", (curve, "green")))
    rows.add_row("solved", f"{last.solved} of {last.rollouts} rollouts, groups with signal {signal(last)}")
    rows.add_row("agreement", agreement(last))
    rows.add_row("speed", f"{last.tokens_per_s:.0f} tokens/s")


def _bar(done: int, total: int, text: str) -> Table:
    bar = Table.grid(padding=(0, 2))
    bar.add_row(f"{done} of {total}", _line(done, total), Text(text))
    return bar


def _line(done: int, total: int) -> ProgressBar:
    return ProgressBar(
        total=max(total, 1), completed=done, width=30, complete_style="green", finished_style="green"
    )


def _stage(glance: Glance) -> Table | Text:
    if glance.stage_total == 0:
        return Text(one_line(glance.stage) or "starting")
    return _bar(glance.stage_done, glance.stage_total, one_line(glance.stage))
