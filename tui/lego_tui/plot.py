"""Curves in braille: two columns and four rows of dots in each character. Pure functions.

Where there are more values than columns, several share one: the column shows their least and greatest,
so that a spike of one step is never lost. Non-finite values leave a gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bit of a dot by column and row, rows from the top."""
_EIGHTHS = "▁▂▃▄▅▆▇█"
RATE = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """The range of an axis."""

    low: float
    high: float
    is_log: bool = False

    def places(self, values: Values) -> Values:
        """`[n]` 0 at `low`, 1 at `high`; NaN stays."""
        low, high = self.low, self.high
        if self.is_log:
            values, low, high = np.log10(np.maximum(values, 1e-300)), math.log10(low), math.log10(high)
        with np.errstate(all="ignore"):  # of any size
            return np.clip((values - low) / (high - low), 0.0, 1.0) if high > low else values * 0 + 0.5

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


def columns(values: Values, width: int) -> tuple[Values, Values]:
    """`[min(width, n)]` least and greatest finite value of each column; NaN in a gap."""
    count = len(values)
    if not count or width <= 0:
        return np.zeros(0), np.zeros(0)
    begins = np.linspace(0, count, min(width, count) + 1).astype(int)[:-1]
    finite = np.where(np.isfinite(values), values, np.nan)
    return np.fmin.reduceat(finite, begins), np.fmax.reduceat(finite, begins)


def curve(values: Values, *, width: int, height: int, scale: Scale) -> NDArray[np.uint8]:
    """`[height, width]` dots of each braille character; fewer values than dots are stretched over the width."""
    cells = [[0] * width for _ in range(height)]
    lows, highs = columns(_stretched(values, 2 * width), 2 * width)
    before: int | None = None
    for x, (low, high) in enumerate(
        zip(_rows(lows, scale, height), _rows(highs, scale, height), strict=True)
    ):
        if low < 0:
            before = None
            continue
        joined = (low, high) if before is None else (low, high, _towards(before, low, high))
        for y in range(min(joined), max(joined) + 1):
            cells[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
        before = low if before is None or abs(before - low) <= abs(before - high) else high
    return np.array(cells, np.uint8).reshape(height, width)


def _stretched(values: Values, width: int) -> Values:
    """At least one dot column a value, on a straight line to the next one."""
    if len(values) < 2 or len(values) >= width:
        return values
    at = np.linspace(0, len(values) - 1, width)
    low = np.minimum(at.astype(int), len(values) - 2)
    part = at - low
    with np.errstate(all="ignore"):  # beside an infinity there is a gap
        between = values[low] * (1 - part) + values[low + 1] * part
    return np.where(part == 0, values[low], np.where(part == 1, values[low + 1], between))


def _rows(values: Values, scale: Scale, height: int) -> list[int]:
    """Row of the dot of each value; −1 in a gap."""
    places = (1 - scale.places(values)) * (4 * height - 1)
    return np.where(np.isnan(values), -1, np.rint(np.nan_to_num(places))).astype(int).tolist()


def _towards(before: int, low: int, high: int) -> int:
    """Where a line from the column before enters this one: a step is drawn as a stroke."""
    nearest = low if abs(before - low) < abs(before - high) else high
    return before + (1 if nearest > before else -1 if nearest < before else 0)


def rate_scale(values: Values) -> Scale:
    """The axis of shares: from nothing to a quarter, or to the greatest of them, so that one per cent looks like
    next to nothing."""
    finite = values[np.isfinite(values)]
    return Scale(low=0.0, high=max(RATE, float(finite.max()) if len(finite) else 0.0))


def spark(values: Values, width: int, scale: Scale | None = None) -> str:
    """One line of blocks over `scale`, by itself the values' own range; a blank in a gap, a low line where all are
    equal."""
    _, found = columns(values, width)
    finite = found[~np.isnan(found)]
    if not len(finite):
        return " " * width
    scale = scale or Scale(low=float(finite.min()), high=float(finite.max()))
    flat = scale.low == scale.high
    levels = np.zeros(len(found)) if flat else np.rint(7 * np.nan_to_num(scale.places(found)))
    text = "".join(
        " " if value != value else _EIGHTHS[int(level)] for value, level in zip(found, levels, strict=True)
    )
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
