"""How lines of a run become rows of its index.

Lenient where the reader is strict: an index answers questions about runs that other versions wrote or that a disk
damaged. Takes numbers under plain names and passes over the rest; a complete line that is no JSON object is
counted.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from lego_core.store.layout import RunLayout
from lego_core.store.rewind import num_kept

KEY = re.compile(r"[a-z0-9_]{1,40}(\.[A-Za-z0-9_:-]{1,40})?")
"""What a metric may be called; anything else is not a metric of ours."""
Row = tuple[Any, ...]
Record = dict[str, Any]
_NON_FINITE = ("NaN", "Infinity", "-Infinity")
"""How the store writes floats that JSON lacks; SQLite keeps these strings, since it has no NaN."""
_LARGEST = 2**62
_ENTRY = ("id", "step", "task", "stop_reason", "reward", "sampled", "file", "offset", "length")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One file of the run and the table its lines go to."""

    name: str
    path: Callable[[RunLayout], Path]
    table: str
    columns: int
    rows: Callable[[Iterable[Record]], Iterable[Row]]
    rewinds: bool = False
    """Whether a line discards what earlier lines said of its own step and of later ones."""

    def insert(self, db: sqlite3.Connection, lines: Sequence[bytes]) -> tuple[int, bool]:
        """Add the rows of whole lines; how many lines were bad, and whether rows of earlier lines were discarded."""
        records = [_object(line) for line in lines]
        good = [record for record in records if record is not None]
        num_bad = len(records) - len(good)
        num_gone = 0
        if self.rewinds and (good := _rewound(good)):
            gone = f"DELETE FROM {self.table} WHERE key IN (SELECT key FROM {self.table}_key) AND step >= ?"
            num_gone = db.execute(gone, (good[0]["step"],)).rowcount
        marks = ", ".join("?" * self.columns)
        db.executemany(f"REPLACE INTO {self.table} VALUES ({marks})", self.rows(good))
        return num_bad, num_gone > 0

    def clear(self, db: sqlite3.Connection) -> None:
        """Forget everything, because the file is another one."""
        db.execute(f"DELETE FROM {self.table}")


def _rewound(records: Iterable[Record]) -> list[Record]:
    """What is left of steps, by step."""
    steps: list[int] = []
    kept: list[Record] = []
    for record in records:
        if (step := _step(record)) is not None:
            n = num_kept(steps, step)
            steps[n:], kept[n:] = [step], [record]
    return kept


def _step(record: Record) -> int | None:
    step = record.get("step")
    return step if type(step) is int and 0 <= step < _LARGEST else None


def _object(line: bytes) -> Record | None:
    try:
        value = json.loads(line.decode("utf-8", "surrogatepass"))  # what it is; `loads` would look for others
    except (ValueError, RecursionError):
        return None
    return cast(Record, value) if isinstance(value, dict) else None


def _fits(value: Any) -> bool:
    """Whether SQLite can hold it: a number, not too large for its integers."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and (isinstance(value, float) or -_LARGEST < value < _LARGEST)


@lru_cache(4096)
def _is_key(key: str) -> bool:
    return KEY.fullmatch(key) is not None


def _metrics(records: Iterable[Record]) -> Iterator[Row]:
    for record in records:
        if (step := _step(record)) is None:
            continue
        for name, value in record.items():
            if isinstance(value, dict):
                for part, inner in cast(Record, value).items():
                    if _is_value(inner) and _is_key(key := f"{name}.{part}"):
                        yield key, step, inner
            elif name != "step" and _is_value(value) and _is_key(name):
                yield name, step, value


def _is_value(value: Any) -> bool:
    return (
        type(value) is float
        or value is None
        or _fits(value)
        or (isinstance(value, str) and value in _NON_FINITE)
    )


def _events(records: Iterable[Record]) -> Iterator[Row]:
    """Stages are many and only the newest matters: they share one row, 0."""
    stage: tuple[Row, Record] | None = None
    for record in records:
        time, kind, fields = record.get("time"), record.get("kind"), record.get("fields")
        if not _fits(time) or not isinstance(kind, str) or not kind.isascii() or not isinstance(fields, dict):
            continue
        told = cast(Record, fields)
        step = told.get("step") if _fits(told.get("step")) else None
        if kind == "stage":
            stage = (0, time, kind, step), told
        else:
            yield None, time, kind, step, json.dumps(told)
    if stage is not None:
        yield *stage[0], json.dumps(stage[1])


def _storable(value: Any) -> Any:
    """Text without lone surrogates, which JSON may hold and SQLite may not."""
    is_odd = isinstance(value, str) and not value.isascii()
    return value.encode("utf-8", "replace").decode() if is_odd else value


def _trajectories(records: Iterable[Record]) -> Iterator[Row]:
    for record in records:
        values = [_storable(record.get(name)) for name in _ENTRY]
        if type(values[0]) is str and all(v is None or type(v) is str or _fits(v) for v in values):
            yield (None, *values)


SOURCES = {
    source.name: source
    for source in (
        Source(
            name="steps", path=lambda run: run.steps, table="metric", columns=3, rows=_metrics, rewinds=True
        ),
        Source(name="heldout", path=lambda run: run.heldout, table="heldout", columns=3, rows=_metrics),
        Source(name="events", path=lambda run: run.events, table="event", columns=5, rows=_events),
        Source(
            name="trajectories",
            path=lambda run: run.index,
            table="trajectory",
            columns=10,
            rows=_trajectories,
        ),
    )
}
