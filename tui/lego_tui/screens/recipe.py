"""The recipe that holds: every key and its value, with what a resume has changed."""

from __future__ import annotations

from typing import Any, cast

from rich.text import Text
from textual.app import ComposeResult

from lego_tui.feed.run import RunFeed
from lego_tui.safe import one_line
from lego_tui.screens.page import Page
from lego_tui.widgets.lines import Lines

_KEY = 34


class RecipePage(Page):
    """Reached by `:recipe`."""

    NAME, BACK = "recipe", "run"
    KEYS = (("/", "filter"), ("esc", "run"), ("?", "help"))

    def compose(self) -> ComposeResult:
        yield Lines(id="recipe-lines")

    def draw(self) -> None:
        run, lines = self.state.run, self.query_one(Lines)
        told = [row for row in settings(run) if self.passes(" ".join(row))] if run else []
        if not told:
            lines.show(
                1, self.note("no key passes the filter" if run and self.filter else "no recipe is known")
            )
            return

        def line(number: int, width: int) -> Text:
            key, value = told[number]
            return Text.assemble(
                (f"{key:{_KEY}} ", self.palette.strong), (value, self.palette.text), no_wrap=True
            )

        lines.show(len(told), line, cursor_style=self.palette.cursor)


def settings(run: RunFeed) -> list[tuple[str, str]]:
    """`section.key` and its value, for every key."""
    found: list[tuple[str, str]] = []
    for section, table in run.recipe.items():
        keys = cast(dict[str, Any], table) if isinstance(table, dict) else {"": table}
        found += [(f"{section}.{key}".strip("."), one_line(value, 300)) for key, value in keys.items()]
    return [(one_line(key, 80), value) for key, value in found]
