"""Every key, by screen."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult

from lego_tui.help_text import GLOBAL, GLOSSARY, PAGES, TITLES
from lego_tui.safe import wrap
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
            rows += [("", ""), (TITLES.get(name, name), ""), *pairs]
        rows += [("", ""), ("words", ""), *GLOSSARY]
        rows += [("", ""), ("signs", ""), ("", LEGEND)]
        rows = [row for row in rows if self.passes(" ".join(row))]
        self._rows = [line for row in rows for line in self._laid_out(*row)]
        self.query_one(Lines).show(len(self._rows), self._line)

    def _laid_out(self, key: str, what: str) -> list[Text]:
        """A key and what it does, over as many lines as that takes."""
        if not what:
            return [Text(key, self.palette.strong)]
        width = max(self.size.width - 1, 20)
        room = 34 if width > 80 else 14
        told = f"  {key:{room}}" if len(key) < room else f"  {key}  "
        first, *more = wrap(what, width - len(told)) if width - len(told) > 12 else [what]
        blank = " " * (room + 2)
        lines = [Text.assemble((told, self.palette.accent), (first, self.palette.text))]
        return lines + [Text(blank + line, self.palette.text) for line in more]

    def _line(self, number: int, width: int) -> Text:
        return self._rows[number]
