"""Every key, by screen."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult

from lego_tui.help_text import GLOBAL, PAGES, TITLES
from lego_tui.screens.marks import LEGEND
from lego_tui.screens.page import Page
from lego_tui.widgets.lines import Lines


class HelpPage(Page):
    """Reached by ? from everywhere; esc goes back to where one was."""

    NAME = "help"
    KEYS = (("esc", "back"), ("/", "filter"))

    def compose(self) -> ComposeResult:
        yield Lines(has_cursor=False, id="help-lines")

    def draw(self) -> None:
        rows: list[tuple[str, str]] = [("everywhere", "")]
        rows += GLOBAL
        for name, pairs in PAGES.items():
            rows += [("", ""), (TITLES[name], ""), *pairs]
        rows += [("", ""), ("signs", ""), ("", LEGEND)]
        rows = [row for row in rows if self.passes(" ".join(row))]
        self._rows = rows
        self.query_one(Lines).show(len(rows), self._line)

    def _line(self, number: int, width: int) -> Text:
        key, what = self._rows[number]
        if not what:
            return Text(key, self.palette.strong)
        room = 34 if width >= 80 else 14
        told = f"  {key:{room}}" if len(key) < room else f"  {key}  "
        return Text.assemble((told, self.palette.accent), (what, self.palette.text))
