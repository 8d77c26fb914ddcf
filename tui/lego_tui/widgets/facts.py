"""A few lines above or below what a screen lists: as high as they are many, cut if they are too long.

Invariant: showing the same lines again costs nothing, and the screen is laid out anew only when the number of lines
changes.
"""

from __future__ import annotations

from rich.text import Text
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from lego_tui.widgets.strips import as_strip


class Facts(Widget):
    """Lines of text."""

    DEFAULT_CSS = "Facts { height: auto; }"

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[Text] = []

    def show(self, text: Text | None = None) -> None:
        """Show the lines of `text`; none without."""
        lines = list(text.split("\n", allow_blank=True)) if text is not None else []
        before, self._lines = self._lines, lines
        if len(before) != len(lines):
            self.refresh(layout=True)
        elif any(old != new or old.style != new.style for old, new in zip(before, lines, strict=True)):
            self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        if y >= len(self._lines):
            return Strip.blank(width, base)
        line = self._lines[y].copy()
        line.truncate(width, overflow="ellipsis")
        return as_strip(self, line, base, width)
