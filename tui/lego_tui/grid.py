"""Columns of a table that fit any width: the least important ones go first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

from lego_tui.safe import fit

Cell = tuple[str, Style] | Text


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column."""

    title: str
    width: int
    right: bool = False
    grows: bool = False
    """Takes what is left."""
    rank: int = 0
    """Columns of the highest rank are dropped first if there is no room."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Columns laid out for a width."""

    shown: tuple[tuple[int, Column, int], ...]
    """(place among all columns, column, width)."""

    def row(self, cells: Sequence[Cell], gap: str = "  ") -> Text:
        """A line out of the cells of all columns."""
        line = Text(no_wrap=True, end="")
        for n, (place, column, width) in enumerate(self.shown):
            if n:
                line.append(gap)
            cell = cells[place]
            if isinstance(cell, Text):
                piece = cell.copy()
                piece.truncate(width, overflow="ellipsis", pad=True)
                line.append_text(piece)
            else:
                line.append(fit(cell[0], width, right=column.right), cell[1])
        return line

    def header(self, style: Style, sorted_by: int | None = None, descending: bool = False) -> Text:
        """The titles; an arrow marks the column that sorts."""
        arrow = "↓" if descending else "↑"
        widths = {place: width for place, _, width in self.shown}
        return self.row(
            [
                (c.title[: widths[i] - 1] + arrow if i == sorted_by and i in widths else c.title, style)
                for i, c in self._all()
            ],
        )

    def _all(self) -> list[tuple[int, Column]]:
        count = 1 + max((place for place, _, _ in self.shown), default=0)
        by_place = {place: column for place, column, _ in self.shown}
        return [(i, by_place.get(i, Column(title="", width=0))) for i in range(count)]


def lay_out(columns: Sequence[Column], width: int) -> Grid:
    """The columns that fit into `width` cells."""
    kept = list(enumerate(columns))
    while len(kept) > 1 and sum(c.width for _, c in kept) + 2 * (len(kept) - 1) > width:
        worst = max(kept, key=lambda item: (item[1].rank, item[0]))
        kept.remove(worst)
    spare = max(width - sum(c.width for _, c in kept) - 2 * (len(kept) - 1), 0)
    growing = [i for i, c in kept if c.grows]
    extra = {i: spare // len(growing) for i in growing}
    if len(kept) == 1:
        (i, c), extra = kept[0], {}
        return Grid(((i, c, min(max(c.width, width), width)),))
    return Grid(tuple((i, c, c.width + extra.get(i, 0)) for i, c in kept))
