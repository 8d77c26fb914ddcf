"""The numbers of a run by step, as columns.

Owns the flattening of JSON: every number of a record is a series, `seconds.train` and `dropped.timeout`
too, so that what a newer trainer measures is shown without a new release. A repeated evaluation replaces the
earlier one; a repeated step also discards the later ones, which the resumed run has thrown away. NaN stands for
what was not measured; ±inf stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from lego_core.store.rewind import num_kept
from lego_tui.safe import one_line

Series = NDArray[np.float64]
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ABSENT_IS_ZERO = ("dropped.", "masked.", "failed.")
"""Tables of counts leave out what did not happen."""
MAX_STEP = 2**31
_ROOM = 256


class Columns:
    """Records with a number of their own (`step`), by that number."""

    def __init__(self, *, rewinds: bool = False) -> None:
        """`rewinds`: these are steps, and a line discards what earlier lines said of later ones."""
        self._rewinds = rewinds
        self._series: dict[str, Series] = {}
        """`[room]` each, of which the rows are filled; NaN elsewhere."""
        self._room = _ROOM
        self._row: dict[int, int] = {}
        self._numbers: list[int] = []
        self._kept: dict[str, tuple[int, Series]] = {}
        self.version = 0
        """Grows with each record: what a display compares."""

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def names(self) -> list[str]:
        return list(self._series)

    @property
    def steps(self) -> list[int]:
        """Step numbers in the order of the rows."""
        return self._numbers

    def row(self, step: int | None) -> int:
        """Row of a step; −1 where there is none."""
        return -1 if step is None else self._row.get(step, -1)

    def add(self, line: bytes) -> tuple[int, dict[str, float]]:
        """Take a line; returns its step and its numbers. Raises ValueError if it is not a record."""
        value = msgspec.json.decode(line)
        record = cast(dict[str, Any], value) if isinstance(value, dict) else {}
        step = record.get("step")
        if type(step) is not int or not 0 <= step < MAX_STEP:
            raise ValueError("expected an object with a step")
        if self._rewinds:
            self._discard(num_kept(self._numbers, step))
        row = self._row.get(step)
        if row is None:
            row = len(self._numbers)
            self._make_room(row + 1)
        flat = dict(_numbers(record, ""))
        for name, number in flat.items():
            series = self._series.get(name)
            if series is None:
                series = self._series[name] = np.full(self._room, np.nan)
            series[row] = number
        if row == len(self._numbers):  # last: who looks meanwhile sees whole rows
            self._row[step] = row
            self._numbers.append(step)
        self.version += 1
        return step, flat

    def _discard(self, n: int) -> None:
        """All rows from `n` on; in copies, since another thread may be looking at what is there."""
        if n < len(self._numbers):
            self._series = {name: _grown(series[:n], self._room) for name, series in self._series.items()}
            self._numbers = self._numbers[:n]
            self._row = {step: row for row, step in enumerate(self._numbers)}

    def _make_room(self, count: int) -> None:
        while count > self._room:
            self._room *= 2
            self._series = {name: _grown(series, self._room) for name, series in self._series.items()}

    def series(self, name: str) -> Series:
        """`[n]` a metric by row; NaN where a step has none. Kept until the next record: not to be written to."""
        kept = self._kept.get(name)
        if kept is None or kept[0] != self.version:
            kept = self._kept[name] = self.version, self._column(name)
        return kept[1]

    def _column(self, name: str) -> Series:
        count, values = len(self._numbers), self._series.get(name)
        if values is None:
            return np.full(count, 0.0 if _is_count(name) else np.nan)
        found = values[:count]
        return np.where(np.isnan(found), 0.0, found) if _is_count(name) else found

    def at(self, step: int, name: str) -> float:
        """A metric of a step; NaN when unknown."""
        row, values = self._row.get(step), self._series.get(name)
        return (
            float(values[row]) if row is not None and values is not None and row < len(values) else math.nan
        )

    def last(self, name: str) -> float:
        """A metric of the last step; NaN when unknown."""
        return self.at(self._numbers[-1], name) if self._numbers else math.nan


def _grown(values: Series, room: int) -> Series:
    """A copy with NaN behind it."""
    found = np.full(room, np.nan)
    found[: len(values)] = values
    return found


def _is_count(name: str) -> bool:
    return name.startswith(_ABSENT_IS_ZERO)


def _numbers(record: dict[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for said, value in record.items():
        if isinstance(value, bool) or value is None:
            continue
        key = said if said.isprintable() else one_line(said, 60)
        if isinstance(value, int | float):
            yield prefix + key, float(value) if abs(value) < 1e300 else math.copysign(math.inf, value)
        elif isinstance(value, str) and value in _WORDS:
            yield prefix + key, _WORDS[value]
        elif isinstance(value, dict) and not prefix:
            yield from _numbers(cast(dict[str, Any], value), f"{key}.")
