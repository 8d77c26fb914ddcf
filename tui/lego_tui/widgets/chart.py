"""One or more curves over the steps, with an axis and a cursor."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.style import Style
from rich.text import Text
from textual.widget import Widget

from lego_tui.plot import Values, curve, scale_of, smooth

_AXIS = 9
"""Cells of the axis' labels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """A series and how it is drawn."""

    name: str
    values: Values
    style: Style


class Chart(Widget):
    """Curves that share steps and scale."""

    DEFAULT_CSS = "Chart { height: 1fr; min-height: 4; }"

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._curves: Sequence[Curve] = ()
        self._steps: Sequence[int] = ()
        self._at = -1
        self._is_log = self._is_smooth = False
        self._dim = self._strong = Style()
        self._label: Callable[[float], str] = str

    def show(
        self,
        curves: Sequence[Curve],
        steps: Sequence[int],
        *,
        at: int,
        is_log: bool,
        is_smooth: bool,
        dim: Style,
        strong: Style,
        label: Callable[[float], str] = str,
    ) -> None:
        """Draw curves; `at` is the row of the cursor, −1 for none."""
        self._curves, self._steps, self._at = curves, steps, at
        self._is_log, self._is_smooth, self._dim, self._strong = is_log, is_smooth, dim, strong
        self._label = label
        self.refresh()

    def render(self) -> Text:
        width, height = self.size.width - _AXIS, self.size.height - 2
        title = self._title()
        if width < 4 or height < 1 or not self._curves:
            return title
        drawn = [smooth(c.values) if self._is_smooth else c.values for c in self._curves]
        scale = scale_of(drawn, is_log=self._is_log)
        layers = [curve(values, width=width, height=height, scale=scale) for values in drawn]
        mark = self._column(width)
        lines = [title]
        for y in range(height):
            place = 1 - y / max(height - 1, 1)
            label = self._label(scale.value(place)) if y in (0, height // 2, height - 1) else ""
            line = Text(f"{label[: _AXIS - 2]:>{_AXIS - 2}} ┤", self._dim, end="")
            cells = (self._cell(layers, x, y, mark) for x in range(width))
            for style, run in itertools.groupby(
                cells, key=operator.itemgetter(1)
            ):  # a span costs, a cell does not
                line.append("".join(char for char, _ in run), style)
            lines.append(line)
        lines.append(self._axis(width, mark))
        return Text("\n").join(lines)

    def _cell(self, layers: list[list[str]], x: int, y: int, mark: int) -> tuple[str, Style]:
        for layer, drawn in zip(layers, self._curves, strict=True):
            if layer[y][x] != " ":
                return layer[y][x], drawn.style + Style(bold=True) if x == mark else drawn.style
        return ("│", self._dim) if x == mark else (" ", self._dim)

    def _title(self) -> Text:
        line = Text(no_wrap=True, end="", overflow="ellipsis")
        for n, one in enumerate(self._curves):
            value = one.values[self._at] if 0 <= self._at < len(one.values) else np.nan
            line.append("   " if n else "")
            line.append("━ ", one.style)
            line.append(f"{one.name} ", self._strong if not n else self._dim)
            line.append(self._label(float(value)), one.style)
        marks = [name for name, on in (("log", self._is_log), ("smoothed", self._is_smooth)) if on]
        if marks:
            line.append(f"   ({', '.join(marks)})", self._dim)
        return line

    def _column(self, width: int) -> int:
        count = len(self._steps)
        return (
            min(round(self._at * (width - 1) / max(count - 1, 1)), width - 1)
            if count and self._at >= 0
            else -1
        )

    def _axis(self, width: int, mark: int) -> Text:
        if not self._steps:
            return Text("")
        first, last = str(self._steps[0]), str(self._steps[-1])
        line = [" "] * width
        line[: len(first)] = first
        line[width - len(last) :] = last
        if mark >= 0:
            here = f"step {self._steps[self._at]}"
            begin = min(max(mark - len(here) // 2, 0), max(width - len(here), 0))
            line[begin : begin + len(here)] = here
        return Text(" " * _AXIS + "".join(line)[:width], self._dim, no_wrap=True)
