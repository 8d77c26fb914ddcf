"""Any number of lines of which only the visible ones are made.

The display's table, list and pager in one. A line is a function of its number and the width; what is
not on the screen costs nothing, so that a million lines show as fast as ten. Owns cursor, scrolling and
mouse; knows nothing of what it shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from lego_tui.widgets.strips import as_strip

Line = Callable[[int, int], Text]
"""(number, width) → the line."""


class Lines(ScrollView, can_focus=True):
    """Windowed lines under an optional header."""

    DEFAULT_CSS = "Lines { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "step(1)", "next line", show=False),
        Binding("k,up", "step(-1)", "line before", show=False),
        Binding("pagedown,space", "page(1)", "next page", show=False),
        Binding("pageup", "page(-1)", "page before", show=False),
        Binding("home", "edge(0)", "first line", show=False),
        Binding("end,G", "edge(1)", "last line", show=False),
        Binding("enter", "choose", "open", show=False),
    ]

    class Moved(Message):
        """The cursor went to another line."""

        def __init__(self, lines: Lines) -> None:
            super().__init__()
            self.lines = lines

        @property
        def control(self) -> Lines:
            return self.lines

    class Chosen(Moved):
        """A line was opened."""

    def __init__(self, *, has_cursor: bool = True, id: str | None = None) -> None:
        super().__init__(id=id)
        self.cursor = 0
        self.count = 0
        self.has_cursor = has_cursor
        self._line: Line = lambda number, width: Text("")
        self._header: Callable[[int], Text] | None = None
        self._cursor_style = Style(reverse=True)
        self._base = Style()

    def show(
        self,
        count: int,
        line: Line,
        *,
        header: Callable[[int], Text] | None = None,
        cursor_style: Style | None = None,
    ) -> None:
        """Show `count` lines; the cursor stays where it is as far as it can."""
        self.count, self._line, self._header = count, line, header
        if cursor_style is not None:
            self._cursor_style = cursor_style
        self.cursor = min(self.cursor, max(count - 1, 0))
        self.virtual_size = Size(0, count + (header is not None))
        self.refresh()

    def move_to(self, number: int) -> None:
        """Put the cursor on a line and have it in sight."""
        number = min(max(number, 0), max(self.count - 1, 0))
        changed, self.cursor = number != self.cursor, number
        rows = max(self.size.height - (self._header is not None), 1)
        top = round(self.scroll_offset.y)
        if number < top:
            self.scroll_to(y=number, animate=False)
        elif number >= top + rows:
            self.scroll_to(y=number - rows + 1, animate=False)
        self.refresh()
        if changed:
            self.post_message(self.Moved(self))

    def render_lines(self, crop: Region) -> list[Strip]:
        self._base = self.rich_style  # of all that it lies in: asked once, not for each line
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base = self._base
        if self._header is not None and y == 0:
            return as_strip(self, self._header(width), base, width)
        number = y + round(self.scroll_offset.y) - (self._header is not None)
        if not 0 <= number < self.count:
            return Strip.blank(width, base)
        style = base + self._cursor_style if self.has_cursor and number == self.cursor else base
        return as_strip(self, self._line(number, width), style, width)

    def action_step(self, by: int) -> None:
        if self.has_cursor:
            self.move_to(self.cursor + by)
        else:
            self.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        rows = max(self.size.height - 2, 1)
        if self.has_cursor:
            self.move_to(self.cursor + by * rows)
        else:
            self.scroll_relative(y=by * rows, animate=False)

    def action_edge(self, end: int) -> None:
        if self.has_cursor:
            self.move_to(self.count - 1 if end else 0)
        else:
            self.scroll_to(y=self.count if end else 0, animate=False)

    def action_choose(self) -> None:
        if self.count:
            self.post_message(self.Chosen(self))

    def on_click(self, event: events.Click) -> None:
        number = event.y + round(self.scroll_offset.y) - (self._header is not None)
        if not self.has_cursor or not 0 <= number < self.count:
            return
        again = number == self.cursor
        self.move_to(number)
        if again:
            self.action_choose()
