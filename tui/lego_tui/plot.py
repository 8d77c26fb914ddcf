"""Curves in braille: two columns and four rows of dots in each character. Pure functions.

Many values share a column where there are more of them than columns: a column shows their least and
greatest, so that a spike of one step is never lost. Non-finite values leave a gap.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bit of a dot by column and row, rows from the top."""
_EIGHTHS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """The range of an axis."""

    low: float
    high: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """0 at `low`, 1 at `high`."""
        if self.is_log:
            value, low, high = math.log10(max(value, 1e-300)), math.log10(self.low), math.log10(self.high)
        else:
            low, high = self.low, self.high
        return min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.5

    def value(self, place: float) -> float:
        """The value at a place of the axis."""
        if self.is_log:
            low, high = math.log10(self.low), math.log10(self.high)
            return 10 ** (low + place * (high - low))
        return self.low + place * (self.high - self.low)


def scale_of(series: Sequence[Values], *, is_log: bool = False) -> Scale:
    """An axis that holds every finite value."""
    values = np.concatenate([np.asarray(s, float) for s in series]) if series else np.zeros(0)
    values = values[np.isfinite(values)]
    if is_log:
        values = values[values > 0]
        if not len(values):
            return Scale(low=0.1, high=1.0, is_log=True)
        low, high = float(values.min()), float(values.max())
        return Scale(low=low, high=high if high > low else low * 10, is_log=True)
    if not len(values):
        return Scale(low=0.0, high=1.0)
    low, high = float(values.min()), float(values.max())
    return Scale(low=low, high=high if high > low else low + (abs(low) or 1.0))


def columns(values: Values, width: int) -> list[tuple[float, float] | None]:
    """Least and greatest finite value of each of `width` columns; None in a gap."""
    count = len(values)
    if not count or width <= 0:
        return [None] * max(width, 0)
    edges = np.linspace(0, count, min(width, count) + 1).astype(int)
    found: list[tuple[float, float] | None] = []
    for begin, end in itertools.pairwise(edges):
        part = values[begin:end]
        part = part[np.isfinite(part)]
        found.append((float(part.min()), float(part.max())) if len(part) else None)
    return found


def curve(values: Values, *, width: int, height: int, scale: Scale) -> list[str]:
    """`height` lines of `width` characters; fewer values than dots are stretched over the width."""
    if width <= 0 or height <= 0:
        return []
    dots = columns(_stretched(values, 2 * width), 2 * width)
    cells = [[0] * width for _ in range(height)]
    before: int | None = None
    for x, span in enumerate(dots):
        if span is None:
            before = None
            continue
        low, high = _row(span[0], scale, height), _row(span[1], scale, height)
        joined = [low, high] if before is None else [low, high, _towards(before, low, high)]
        for y in range(min(joined), max(joined) + 1):
            cells[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
        before = low if before is None or abs(before - low) <= abs(before - high) else high
    return ["".join(chr(0x2800 + bits) if bits else " " for bits in line) for line in cells]


def _stretched(values: Values, width: int) -> Values:
    """At least one dot column a value, on a straight line to the next one."""
    if len(values) < 2 or len(values) >= width:
        return values
    at = np.linspace(0, len(values) - 1, width)
    low = np.minimum(at.astype(int), len(values) - 2)
    part = at - low
    between = values[low] * (1 - part) + values[low + 1] * part
    return np.where(part == 0, values[low], np.where(part == 1, values[low + 1], between))


def _row(value: float, scale: Scale, height: int) -> int:
    return round((1 - scale.place(value)) * (4 * height - 1))


def _towards(before: int, low: int, high: int) -> int:
    """Where a line from the column before enters this one: a step is drawn as a stroke."""
    nearest = low if abs(before - low) < abs(before - high) else high
    return before + (1 if nearest > before else -1 if nearest < before else 0)


def spark(values: Values, width: int) -> str:
    """One line of blocks over the values' own range; a blank in a gap, a low line where all are equal."""
    found = columns(values, width)
    finite = [span[1] for span in found if span]
    if not finite:
        return " " * width
    scale = Scale(low=min(finite), high=max(finite))
    flat = scale.low == scale.high
    text = "".join(" " if s is None else _EIGHTHS[0 if flat else round(7 * scale.place(s[1]))] for s in found)
    return text.ljust(width)


def smooth(values: Values, window: int = 5) -> Values:
    """Median of the last `window` values, over what is finite."""
    if not len(values):
        return values
    padded = np.concatenate([np.full(window - 1, np.nan), np.where(np.isfinite(values), values, np.nan)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, window)
    found = np.full(len(values), np.nan)
    some = np.isfinite(windows).any(axis=1)
    found[some] = np.nanmedian(windows[some], axis=1)
    return found
