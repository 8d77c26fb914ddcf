"""How a rollout is drawn as one sign, and its turns as a strip."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.style import Style
from rich.text import Text

from lego_tui.actions import LETTERS, Action
from lego_tui.feed.index import Entry
from lego_tui.palette import Palette

LEGEND = "● solved  ◐ partly  ○ not  ◇ truncated  ✖ failed outside  ◌ timed out"


def mark(entry: Entry, palette: Palette) -> tuple[str, Style]:
    """A rollout as one sign."""
    if entry.stop_reason == "timeout":
        return "◌", palette.watch
    if entry.is_failure or math.isnan(entry.reward):
        return "✖", palette.bad
    if entry.reward >= 1:
        return "●", palette.ok
    if entry.is_truncated:
        return "◇", palette.watch
    return ("◐", palette.accent) if entry.reward > 0 else ("○", palette.dim)


def strip(done: Sequence[Action], palette: Palette, width: int) -> Text:
    """A letter a turn, as in the paper's Figure 8; the middle gives way where there is no room."""
    line = Text(no_wrap=True, end="")
    shown = (
        list(done) if len(done) <= width else [*done[: width - width // 2 - 1], None, *done[-(width // 2) :]]
    )
    for action in shown:
        if action is None:
            line.append("…", palette.dim)
        else:
            line.append(LETTERS[action.kind], palette.kinds[action.kind])
    return line


def legend(palette: Palette) -> Text:
    """What the letters of a strip mean."""
    line = Text(no_wrap=True, end="")
    for kind, letter in LETTERS.items():
        line.append(f"{'  ' if line else ''}{letter}", palette.kinds[kind])
        line.append(f" {kind}", palette.dim)
    return line
