"""The runs of a folder as a table that renews itself."""

from __future__ import annotations

from dataclasses import replace

from rich.text import Text

from lego_tui.feed.fleet import Fleet
from lego_tui.fleet_table import COLUMNS, cells
from lego_tui.grid import lay_out
from lego_tui.palette import palette
from lego_tui.safe import one_line

_COLUMNS = tuple(replace(column, rank=0) if column.title == "status" else column for column in COLUMNS)
"""Those of the fleet screen; a table has no lines below it that say how a run stands, so that is never left out."""


def catch_up(fleet: Fleet) -> None:
    """Read everything that is there now."""
    fleet.poll()
    while fleet.is_behind:
        fleet.poll()


def table(fleet: Fleet, width: int) -> Text:
    """The fleet for people, in lines of `width` cells."""
    look, grid = palette("lego-dark"), lay_out(_COLUMNS, width)
    runs = sorted(fleet.runs.values(), key=lambda run: run.created, reverse=True)
    if not runs:
        return Text(f"no run in {one_line(fleet.root)}; lego demo-runs DIR writes examples")
    return Text("\n").join([grid.header(look.dim), *(grid.row(cells(run, look)) for run in runs)])
