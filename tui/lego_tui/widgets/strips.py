"""Rich text → the strips that a terminal line is made of, without Textual's layout of running text in between.

Every widget here draws line by line: a single line needs no wrapping, and that detour costs more than
the rest of the drawing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.app import App
    from textual.widget import Widget

_NOTHING = Style()


def as_strip(widget: Widget, text: Text, base: Style, width: int) -> Strip:
    """One line of `text` over `base`, in exactly `width` cells; what is cut off has a sign in its place."""
    app: object = widget.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    console = cast("App[None]", app).console
    text.end = ""
    if text.cell_len > width > 0 and cell_len(text.plain.rstrip()) > width:
        text = text.copy()
        text.truncate(width, overflow="ellipsis")
    own = text.style if isinstance(text.style, Style) else _NOTHING  # a line without spans leaves it out
    ground = base + own
    segments = [
        Segment(part.text, ground + part.style if part.style else ground) for part in text.render(console)
    ]
    return Strip(segments).adjust_cell_length(width, base)
