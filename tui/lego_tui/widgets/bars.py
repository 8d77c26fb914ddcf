"""The top line (where one is, how it goes) and the bottom line (which keys can be pressed)."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.strip import Strip
from textual.widget import Widget

from lego_tui.widgets.strips import as_strip

Part = tuple[str, Style]


class Bar(Widget):
    """Text on the left and on the right; the left one gives way."""

    DEFAULT_CSS = "Bar { height: 1; background: $panel; }"

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._left: Sequence[Part] = ()
        self._right: Sequence[Part] = ()

    def show(self, left: Sequence[Part], right: Sequence[Part] = ()) -> None:
        if (self._left, self._right) != (left, right):
            self._left, self._right = left, right
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        return as_strip(self, self._text(width), self.rich_style, width)

    def _text(self, width: int) -> Text:
        right = Text.assemble(*self._right)
        left = Text.assemble(*self._left, no_wrap=True)
        room = max(width - cell_len(right.plain) - 1, width // 2)
        left.truncate(room, overflow="ellipsis", pad=True)
        left.append(" ")
        left.append_text(right)
        left.truncate(width, overflow="ellipsis")
        left.no_wrap = True
        return left


def fitting(pairs: Sequence[tuple[str, str]], room: int) -> list[tuple[str, str]]:
    """The pairs for which there is room, whole: the last one, which leads to all others, and the first ones."""
    kept = list(pairs)
    while len(kept) > 1 and sum(3 + cell_len(key) + cell_len(what) for key, what in kept) > room:
        del kept[-2]
    return kept


def keys(pairs: Sequence[tuple[str, str]], strong: Style, dim: Style) -> list[Part]:
    """Keys and what they do, as parts of a bar."""
    parts: list[Part] = []
    for key, what in pairs:
        parts += [(f" {key}", strong), (f" {what} ", dim)]
    return parts
