"""What all screens share: a place to draw in, a filter, an order, a handle to copy.

A page is a container of the one Textual screen. `draw` shows what is known now and may be called at any
time; it reads no files. A page says with `needs` what has to be read, and a thread reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.containers import Vertical
from textual.geometry import Size

from lego_tui.palette import Palette
from lego_tui.safe import one_line
from lego_tui.state import State

if TYPE_CHECKING:
    from lego_tui.app import Watch


OWN_ORDER = -1
"""Sorted by no column."""


class Page(Vertical):
    """One screen of the display."""

    NAME: ClassVar[str] = ""
    KEYS: ClassVar[Sequence[tuple[str, str]]] = ()
    BACK: ClassVar[str] = "fleet"
    """Where esc leads, unless `back` says another place."""

    def __init__(self, state: State) -> None:
        super().__init__(id=self.NAME)
        self.state = state
        self.filter = ""
        self.sort = next(iter(self.orders()), 0)
        self.descending = False
        self.drawn_for: Size | None = None
        """The size it had when it was drawn last."""
        self.back = self.BACK

    @property
    def shell(self) -> Watch:
        return cast("Watch", cast(object, self.app))  # pyright: ignore[reportUnknownMemberType]

    @property
    def palette(self) -> Palette:
        return self.shell.palette

    def draw(self) -> None:
        """Show what is known now."""
        raise NotImplementedError

    def needs(self) -> Callable[[], object] | None:
        """Work for a thread before the next `draw` can show more; None when there is none."""
        return None

    def handle(self) -> str:
        """What `y` copies."""
        return self.state.run.name if self.state.run else ""

    def orders(self) -> Sequence[int]:
        """Columns that can sort, that of the beginning first; OWN_ORDER where the screen has one."""
        return ()

    def on_resize(self) -> None:
        if self.shell.page is self and self.size != self.drawn_for:
            self.shell.draw()  # it was opened behind a dialogue, or its terminal changed

    def passes(self, text: str) -> bool:
        """True when a line with this text passes the filter; a leading `!` inverts."""
        wanted = self.filter.strip().lower()
        if not wanted or wanted == "!":
            return True
        if wanted.startswith("!"):
            return wanted[1:] not in text.lower()
        return wanted in text.lower()

    def note(self, *lines: str) -> Callable[[int, int], Text]:
        """Lines that say why there is nothing, and what would produce it."""
        return lambda number, width: Text(
            one_line(lines[number], width * 4), style=self.palette.dim, no_wrap=True
        )
