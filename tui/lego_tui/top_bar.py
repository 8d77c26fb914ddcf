"""The top line: the way to what is shown on the left, how the run stands on the right. Pure, apart from the clock."""

from __future__ import annotations

import time

from lego_tui.help_text import TITLES
from lego_tui.palette import GLYPHS, Palette
from lego_tui.safe import one_line
from lego_tui.state import State
from lego_tui.widgets.bars import Part

WITHOUT_RUN = ("fleet", "compare", "help")
"""Pages that are about no run, or about several."""


def crumbs(look: Palette, state: State, page: str) -> list[Part]:
    """The way from the display down to what `page` shows: run, step, group."""
    parts: list[Part] = [(" LEGO ", look.strong + look.cursor), (f" {TITLES[page]}", look.accent)]
    if state.run and page not in WITHOUT_RUN:
        parts.append((f" ▸ {one_line(state.run.name, 60)}", look.strong))
        if page in ("run", "step", "group", "trajectory") and state.step_now is not None:
            follow = " (newest)" if state.step is None else ""
            parts.append((f" ▸ step {state.step_now}{follow}", look.text))
        if page in ("group", "trajectory") and state.group:
            parts.append((f" ▸ {state.group}", look.text))
    elif page == "fleet":
        parts.append((f" ▸ {one_line(state.fleet.root, 60)}", look.dim))
    return parts


def standing(look: Palette, state: State, page: str) -> list[Part]:
    """The run's status and what is wrong with its files, or how many runs are running; and what one may do."""
    run = state.run
    control: Part = ("CONTROL ", look.watch) if state.allow_control else ("RO ", look.dim)
    if run is None or page in WITHOUT_RUN:
        live = sum(r.status == "running" for r in list(state.fleet.runs.values()))
        return [(f"{live} running ", look.ok if live else look.dim), control]
    status = run.status
    parts: list[Part] = [(f"{GLYPHS.get(status, '?')} {status} ", look.level(status))]
    if status == "running":
        parts.append((f"{max(time.monotonic() - run.changed_at, 0):.0f} s ago ", look.dim))
    if run.num_broken:
        parts.append((f"▲ {run.num_broken} unreadable ", look.watch))
    if run.is_behind:
        parts.append((f"reading {len(run.index):,} ", look.dim))
    return [*parts, control]
