"""One or more curves over the steps, with an axis and a cursor."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from lego_tui.palette import GLYPHS
from lego_tui.plot import Values, curve, scale_of, smooth
from lego_tui.widgets.strips import as_strip

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
        self._events: Sequence[int] = ()
        self._is_log = self._is_smooth = False
        self._dim = self._strong = Style()
        self._label: Callable[[float], str] = str
        self._lines: list[Text] = []
        self._drawn_for: Size | None = None

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
        events: Sequence[int] = (),
    ) -> None:
        """Draw curves; `at` is the row of the cursor, −1 for none; `events` are rows that get a mark on the axis."""
        self._curves, self._steps, self._at, self._events = curves, steps, at, events
        self._is_log, self._is_smooth, self._dim, self._strong = is_log, is_smooth, dim, strong
        self._label = label
        self._drawn_for = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        size, base = self.size, self.rich_style
        if self._drawn_for != size:
            self._drawn_for = size
            self._lines = self._draw(size.width, size.height)
        return (
            as_strip(self, self._lines[y], base, size.width)
            if y < len(self._lines)
            else Strip.blank(size.width, base)
        )

    def _draw(self, whole: int, height: int) -> list[Text]:
        width, height = whole - _AXIS, height - 2
        title = self._title()
        if width < 4 or height < 1 or not self._curves:
            return [title]
        drawn = [smooth(c.values) if self._is_smooth else c.values for c in self._curves]
        scale = scale_of(drawn, is_log=self._is_log)
        layers = [curve(values, width=width, height=height, scale=scale) for values in drawn]
        mark = self._column(width, self._at)
        styles = [self._dim, *(c.style for c in self._curves)]
        styles += [self._dim, *(c.style + Style(bold=True) for c in self._curves)]
        places = [1 - y / max(height - 1, 1) for y in range(height)]
        said = {y: self._label(scale.value(places[y])) for y in (0, height // 2, height - 1)}
        lines = [title]
        for y, (chars, kinds) in enumerate(zip(*_merged(layers, mark), strict=True)):
            line = Text(f"{said.get(y, '')[: _AXIS - 2]:>{_AXIS - 2}} ┤", self._dim, end="", no_wrap=True)
            for kind, begin, end in _stretches(kinds):
                line.append(chars[begin:end], styles[kind])
            lines.append(line)
        return [*lines, self._axis(width, mark)]

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

    def _column(self, width: int, row: int) -> int:
        count = len(self._steps)
        return min(round(row * (width - 1) / max(count - 1, 1)), width - 1) if count and row >= 0 else -1

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
        for row in self._events:
            line[self._column(width, row)] = GLYPHS["watch"]
        return Text(" " * _AXIS + "".join(line)[:width], self._dim, no_wrap=True)


def _merged(layers: Sequence[NDArray[np.uint8]], mark: int) -> tuple[list[str], NDArray[np.int64]]:
    """Lines of characters, and `[height, width]` whose each is: 0 nobody's, 1 … the layer's, as many more at the mark."""
    bits, owners = np.zeros_like(layers[0]), np.zeros(layers[0].shape, np.int64)
    for number, layer in enumerate(layers, 1):
        takes = (bits == 0) & (layer > 0)
        bits[takes], owners[takes] = layer[takes], number
    codes = np.where(bits > 0, 0x2800 + bits.astype("<u4"), ord(" ")).astype("<u4")
    if mark >= 0:
        codes[:, mark] = np.where(bits[:, mark] > 0, codes[:, mark], ord("│"))
        owners[:, mark] += len(layers) + 1
    return [row.tobytes().decode("utf-32-le") for row in codes], owners


def _stretches(kinds: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """(kind, begin, end) of what is of one kind: a span costs, a cell does not."""
    edges = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(kinds)]
    return ((int(kinds[begin]), begin, end) for begin, end in itertools.pairwise(edges))
