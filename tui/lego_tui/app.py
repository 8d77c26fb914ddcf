"""`lego watch`: runs, steps, groups and rollouts in a terminal, while they are made.

    Fleet.poll (thread, every second) ──▶ columns ──▶ page.draw (≤ 4 a second) ──▶ terminal

Owns the frame around the pages: which one is shown, the bars, the prompt, the pace. Invariants: files are
read in a thread, never while a key is handled; the run directory is only read, except for a person's labels and,
under `--allow-control`, for a stop that a person asked for by typing the run's name.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

from rich.cells import cell_len
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.screen import Screen
from textual.widgets import ContentSwitcher

from lego_tui.ascii import AsciiFilter
from lego_tui.commands import run_command
from lego_tui.feed.fleet import Fleet
from lego_tui.feed.index import EVALUATION
from lego_tui.help_text import TITLES
from lego_tui.palette import THEMES, Palette, palette, theme
from lego_tui.safe import one_line
from lego_tui.screens.compare import ComparePage
from lego_tui.screens.fleet import FleetPage
from lego_tui.screens.group import GroupPage
from lego_tui.screens.health import HealthPage
from lego_tui.screens.help import HelpPage
from lego_tui.screens.page import Page
from lego_tui.screens.pool import PoolPage
from lego_tui.screens.recipe import RecipePage
from lego_tui.screens.review import ReviewPage
from lego_tui.screens.run import RunPage
from lego_tui.screens.sandboxes import SandboxesPage
from lego_tui.screens.step import StepPage
from lego_tui.screens.trajectory import TrajectoryPage
from lego_tui.state import State
from lego_tui.top_bar import crumbs, standing
from lego_tui.widgets.bars import Bar, Part, fitting, keys
from lego_tui.widgets.lines import Lines
from lego_tui.widgets.prompt import Prompt

POLL_S = 1.0
DRAW_S = 0.25
"""Shortest time between two redraws that nobody asked for."""
PAGES = (
    FleetPage, RunPage, StepPage, TrajectoryPage, HealthPage, SandboxesPage, PoolPage, ReviewPage, GroupPage, ComparePage, RecipePage, HelpPage,
)  # fmt: skip


class Watch(App[None]):
    """The whole display."""

    TITLE = "lego watch"
    ENABLE_COMMAND_PALETTE = True
    CSS = """
    Screen { layout: vertical; }
    ContentSwitcher { height: 1fr; }
    Lines { scrollbar-color: $panel-lighten-2; scrollbar-background: $surface; scrollbar-color-hover: $accent; }
    #fleet-preview, #step-preview, #group-preview, #review-preview { height: 1fr; }
    #run-split { height: 1fr; layout: vertical; }
    #run-chart { height: 2fr; }
    #run-metrics { height: 3fr; }
    .wide #run-split { layout: horizontal; }
    .wide #run-chart { width: 3fr; height: 1fr; margin-right: 1; }
    .wide #run-metrics { width: 2fr; height: 1fr; }
    #compare-chart { height: 2fr; }
    #compare-lines { height: 3fr; }
    #trajectory-lines { width: 2fr; }
    #trajectory-side { width: 1fr; border-left: solid $panel; padding-left: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(n), f"page('{page.NAME}')", TITLES[page.NAME], show=False)
            for n, page in enumerate(PAGES[:8], 1)
        ),
        Binding("escape", "back", "back", show=False),
        Binding("slash", "filter", "filter", show=False),
        Binding("colon", "command", "command", show=False),
        Binding("question_mark", "page('help')", "help", show=False),
        Binding("comma", "sort(-1)", "sort", show=False),
        Binding("full_stop", "sort(1)", "sort", show=False),
        Binding("o", "order", "order", show=False),
        Binding("f", "follow", "follow", show=False),
        Binding("y", "copy", "copy", show=False),
        Binding("T", "theme", "theme", show=False),
        Binding("ctrl+s", "stop", "stop", show=False, priority=True),
        Binding("q", "quit", "leave", show=False),
    ]

    def __init__(
        self,
        fleet: Fleet,
        *,
        allow_control: bool = False,
        ascii_only: bool = False,
        theme_name: str = THEMES[0],
    ) -> None:
        super().__init__()
        self.state = State(fleet=fleet, allow_control=allow_control)
        self._ascii = AsciiFilter() if ascii_only else None
        self._theme_name = theme_name
        self._pages = {page.NAME: page(self.state) for page in PAGES}
        self._before_help = "fleet"
        self._said = ""
        self._drawn_at = 0.0
        self.num_draws = 0
        self.is_due = self.is_reading = False
        """`is_due`: a page is still to be drawn; `is_reading`: something is being read for it."""
        self._wake = asyncio.Event()
        self._switcher = ContentSwitcher(*self._pages.values(), initial=self._first_page())
        self._top, self._bottom = Bar(id="top"), Bar(id="bottom")

    def get_line_filters(self) -> list[LineFilter]:
        return [*super().get_line_filters(), *([self._ascii] if self._ascii else [])]

    def compose(self) -> ComposeResult:
        yield self._top
        yield self._switcher
        yield Prompt(id="prompt")
        yield self._bottom

    def _first_page(self) -> str:
        return "run" if self.state.fleet.chosen else "fleet"

    async def on_mount(self) -> None:
        for name in THEMES:
            self.register_theme(theme(name))
        self.theme = self._theme_name if self._theme_name in THEMES else THEMES[0]
        self.theme_changed_signal.subscribe(self, lambda _: self.draw())
        self.page.query_one(Lines).focus()
        self.call_after_refresh(self.draw)
        self.run_worker(self._follow(), name="follow")

    @property
    def palette(self) -> Palette:
        return palette(self.theme)

    @property
    def page(self) -> Page:
        """The page that is shown."""
        return self._pages[self._switcher.current or "fleet"]

    # --- following --------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            changed = await asyncio.to_thread(self.state.fleet.poll)
            behind = self.state.fleet.is_behind
            if changed and (not behind or time.monotonic() - self._drawn_at >= DRAW_S):
                self.draw()
            elif changed or not behind:
                self._bars()
            if not behind:
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), POLL_S)

    def draw(self) -> None:
        """Show what is known now, and start reading what the page still needs."""
        if not self.is_running or not self._switcher.is_attached:  # it is being left
            return
        self._drawn_at = time.monotonic()
        self.num_draws += 1
        self.is_due = False
        self._switcher.set_class(self.size.width >= 110, "wide")
        self.page.draw()
        self.page.drawn_for = self.page.size
        self._bars()
        if not self.is_reading and (work := self.page.needs()):
            self.is_reading = True
            self.call_after_refresh(self._start_reading, work)  # what is known is shown first

    def _start_reading(self, work: Callable[[], object]) -> None:
        self.run_worker(self._read(work), name="read")

    async def _read(self, work: Callable[[], object] | None) -> None:
        """Read on until a redraw is due: many small readings are not a redraw each."""
        try:
            while work is not None:
                await asyncio.to_thread(work)
                is_due = time.monotonic() - self._drawn_at >= DRAW_S
                work = None if is_due else self.page.needs()
        finally:
            self.is_reading = False
        self.draw()

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    # --- bars -------------------------------------------------------------------------------

    def _bars(self) -> None:
        if not self.is_running or not self._bottom.is_attached:
            return
        look, state, page = self.palette, self.state, self.page
        self._top.show(crumbs(look, state, page.NAME), standing(look, state, page.NAME))
        if self._said:
            self._bottom.show([(f" {self._said}", look.watch)])
            return
        searched: list[Part] = [(f" /{one_line(page.filter, 40)} ", look.watch)] if page.filter else []
        always = (
            keys((("1-8", "screens"), ("q", "leave")), look.strong, look.dim) if self.size.width > 70 else []
        )
        room = self.size.width - 1 - sum(cell_len(text) for text, _ in (*searched, *always))
        self._bottom.show([*searched, *keys(fitting(page.KEYS, room), look.accent, look.dim)], always)

    def say(self, text: str) -> None:
        """One line below, until the next key."""
        self._said = one_line(text, 300)
        self._bars()

    def on_key(self) -> None:
        self._said = ""

    # --- going places -----------------------------------------------------------------------

    def go(self, name: str, *, view: str = "", back: str = "") -> None:
        """Show a page; `back` is where esc leads from it, when not to its usual place."""
        if name == "help" and self.page.NAME != "help":
            self._before_help = self.page.NAME
        trajectory = self._pages["trajectory"]
        if name == "trajectory" and isinstance(trajectory, TrajectoryPage):
            is_new = self.page.NAME != "trajectory"
            trajectory.view = view or ("conversation" if is_new else trajectory.view)
            if is_new:  # what was searched for in another rollout
                trajectory.filter = ""
        if self.state.run is None and name not in ("fleet", "help", "compare"):
            newest = max(list(self.state.fleet.runs.values()), key=lambda run: run.created, default=None)
            if newest is not None:
                self.state.choose_run(newest.name)
        fleet = self._pages["fleet"]
        if name == "fleet" and isinstance(fleet, FleetPage):
            fleet.wanted = self.state.fleet.chosen
        self._pages[name].back = back or self._pages[name].BACK
        self._switcher.current = name
        if self.state.fleet.is_behind:  # another run was chosen: its rollouts are read at once
            self._wake.set()
        lines = [line for line in self.page.query(Lines) if line.display and line.has_cursor]
        (lines or list(self.page.query(Lines)))[0].focus()
        if self.page.size == self._switcher.size:
            self.draw()
        else:  # it learns only now how large it is
            self.is_due = True
            self.call_after_refresh(self.draw)

    def open_rollout(self, trajectory_id: str, *, back: str = "") -> bool:
        """Show a rollout by its handle, from which esc leads `back`; False when there is none."""
        run = self.state.run
        entry = run.index.find(trajectory_id) if run else None
        if entry is None:
            return False
        self.state.step = None if entry.step == EVALUATION else entry.step
        self.state.group, self.state.rollout = entry.group, entry.id
        self.go("trajectory", back=back)
        return True

    def read_whole(self, names: frozenset[str]) -> None:
        """Have these runs read with all of their rollouts, in addition to the chosen one."""
        fleet = self.state.fleet
        fleet.compared = names
        if fleet.is_behind:
            self._wake.set()

    def shift_step(self, by: int) -> None:
        """Look at the step before or after."""
        run, now = self.state.run, self.state.step_now
        if run and now in run.steps.steps:
            at = run.steps.steps.index(now) + by
            self.state.step = run.steps.steps[min(max(at, 0), len(run.steps) - 1)]
            self.draw()

    def take_up(self) -> None:
        """On the fleet, what is asked for is asked of the run under the cursor."""
        if isinstance(self.page, FleetPage) and (run := self.page.selected()):
            self.state.choose_run(run.name)

    def action_page(self, name: str) -> None:
        self.take_up()
        self.go(name)

    async def action_back(self) -> None:
        page = self.page
        if page.filter:
            page.filter = ""
            self.draw()
        elif page.NAME == "help":
            self.go(self._before_help, back=self._pages[self._before_help].back)
        elif page.NAME == "trajectory" and isinstance(page, TrajectoryPage) and page.view != "conversation":
            page.action_view(page.view)
        elif page.NAME != "fleet" and not (page.NAME == "run" and self.state.fleet.is_one_run):
            self.go(page.back)

    # --- prompt -----------------------------------------------------------------------------

    def action_filter(self) -> None:
        self.query_one(Prompt).ask("filter", "filter; !word leaves out; esc clears", self.page.filter)

    def action_command(self) -> None:
        self.query_one(Prompt).ask(
            "command", "step N · metric NAME · open HANDLE · run NAME · theme NAME · help · q"
        )

    def action_stop(self) -> None:
        self.take_up()
        run = self.state.run
        if not self.state.allow_control:
            self.say("read-only: start lego watch with --allow-control to stop runs from here")
        elif run is None or run.status != "running":
            self.say("no running run is chosen")
        else:
            self.query_one(Prompt).ask("stop", f"type {run.name} to ask it to stop after its step")

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        if event.is_final:
            lines = [line for line in self.page.query(Lines) if line.display]
            lines[-1 if self.page.NAME == "sandboxes" else 0].focus()
        if event.purpose == "filter":
            self.page.filter = event.text
            self.draw()
            if event.is_final and event.text and isinstance(self.page, TrajectoryPage):
                self.page.action_hit(1)
        elif event.is_final and event.text:
            self._said = ""
            if answer := self._answer(event.purpose, event.text):
                self.say(answer)

    def _answer(self, purpose: str, text: str) -> str:
        if purpose == "command":
            return run_command(self, text)
        if purpose == "stop":
            return self._stop(text)
        page = self.page
        return (
            page.label(text, exclude=purpose == "exclude")
            if isinstance(page, TrajectoryPage | ReviewPage)
            else ""
        )

    def _stop(self, typed: str) -> str:
        run = self.state.run
        if run is None or typed.strip() != run.name:
            return f"{typed.strip()!r} is not the name of the run: nothing was asked"
        from lego_tui.control import request_stop

        return request_stop(run)

    # --- keys -------------------------------------------------------------------------------

    def action_sort(self, by: int) -> None:
        if orders := self.page.orders():
            here = orders.index(self.page.sort) if self.page.sort in orders else 0
            self.page.sort = orders[(here + by) % len(orders)]
            self.draw()

    def action_order(self) -> None:
        self.page.descending = not self.page.descending
        self.draw()

    def action_follow(self) -> None:
        self.state.step = None if self.state.step is not None else self.state.step_now
        self.say(
            "following the newest step" if self.state.step is None else f"staying at step {self.state.step}"
        )
        self.draw()

    def action_copy(self) -> None:
        handle = self.page.handle()
        if handle:
            self.copy_to_clipboard(handle)
        self.say(f"copied {handle}" if handle else "nothing to copy here")

    def action_theme(self) -> None:
        at = THEMES.index(self.theme) if self.theme in THEMES else -1
        self.theme = THEMES[(at + 1) % len(THEMES)]
        self.say(f"theme {self.theme}")

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        for name, title in TITLES.items():
            yield SystemCommand(f"Go to {title}", f"screen {title}", partial(self.action_page, name))
        for name in THEMES:
            yield SystemCommand(f"Theme {name}", "colours", partial(setattr, self, "theme", name))
        yield SystemCommand("Follow the newest step", "f", self.action_follow)
        yield SystemCommand("Copy the handle", "y", self.action_copy)
        yield SystemCommand("Leave", "the run goes on", self.exit)
