"""What a report is made of: tables and figures as plain values, and what is missing.

Owns the shapes, and that no text of a run leaves here unchanged: every string is made visible and short. A part
without data says what would produce it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lego_tui.safe import one_line


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows of text under headers."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    mono: int = -1
    """Column whose characters must be aligned vertically; −1 for none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """Curves over one axis, or bars, grouped or stacked."""

    kind: str
    """`lines`, `bars` or `stack`."""
    x: tuple[Any, ...]
    """`[n]` numbers, or names for bars."""
    curves: dict[str, tuple[float, ...]]
    """Name → `[n]`; NaN where nothing was measured."""
    x_label: str
    y_label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One table or figure of the paper, or one of our own."""

    id: str
    """`table3`, `fig5`: what --only takes."""
    title: str
    says: str = ""
    """How to read it, and what it was computed over."""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    quotes: tuple[tuple[str, str], ...] = ()
    """(heading, text of any length and number of lines) from a model: shown fenced."""
    missing: str = ""
    """What would produce what is not here."""


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]], *, mono: int = -1) -> Table:
    """A table of any values, with numbers shortened and text made safe."""
    return Table(headers=tuple(headers), rows=tuple(tuple(cell(c) for c in row) for row in rows), mono=mono)


def cell(value: Any) -> str:
    """A value as the text of one cell."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"
    return one_line(value, 200)


def percent(share: float | None) -> str:
    """A share in [0, 1] with one decimal."""
    return "–" if share is None or not math.isfinite(share) else f"{100 * share:.1f} %"


def lines(x: Sequence[float], curves: Mapping[str, Sequence[float]], x_label: str, y_label: str) -> Figure:
    """Curves over `x`, those that were measured."""
    measured = {name: ys for name, ys in curves.items() if any(map(math.isfinite, ys))}
    return figure("lines", x, measured, x_label, y_label)


def figure(
    kind: str, x: Sequence[Any], curves: Mapping[str, Sequence[float]], x_label: str, y_label: str
) -> Figure:
    """A figure whose names are safe and short."""
    named = {one_line(name, 40): tuple(map(float, ys)) for name, ys in curves.items()}
    return Figure(kind=kind, x=tuple(x), curves=named, x_label=x_label, y_label=y_label)
