"""Series of one run: what was asked for, what is missing, and no spike lost."""

from __future__ import annotations

import fnmatch
import math

from lego_control.failures import Refusal
from lego_control.runs import Runs
from lego_control.schemas import Series
from lego_control.tools.paging import RESULT_BYTES
from lego_control.tools.status import last_step

MAX_KEYS = 40
BYTES_PER_VALUE = 12
MIN_POINTS = 20


def metrics_query(
    runs: Runs,
    run: str,
    keys: list[str],
    first: int = 0,
    last: int | None = None,
    max_points: int = 100,
    cursor: str | None = None,
) -> Series:
    """The metrics whose names match the globs, aligned on the union of their steps."""
    found = runs.get(run)
    found.index.refresh("steps")
    known = [str(key) for (key,) in found.index.rows("SELECT key FROM metric_key")]
    wanted, missing = _match(known, keys)
    if not wanted:
        raise Refusal("no_such_metric", "no metric of this run matches", f"known: {', '.join(known[:60])}")
    if cursor is not None and cursor not in wanted:
        raise Refusal(
            "bad_cursor", "that is no cursor of this tool", "use next_cursor of the last result, or none"
        )
    rest = wanted[wanted.index(cursor) if cursor else 0 :]
    room = RESULT_BYTES // (BYTES_PER_VALUE * (MIN_POINTS + 2))
    taken, left = rest[: min(room, MAX_KEYS)], rest[min(room, MAX_KEYS) :]
    points = min(max_points, RESULT_BYTES // (BYTES_PER_VALUE * (len(taken) + 1)))
    columns = {
        key: dict(found.index.series(key, first, last if last is not None else 2**62)) for key in taken
    }
    steps = sorted({step for column in columns.values() for step in column})
    kept = steps if len(steps) <= points else _spikes(steps, columns, points)
    return Series(
        run=run,
        keys=taken,
        missing_keys=missing,
        n_total=len(steps),
        method="all" if kept is steps else "min-max",
        steps=kept,
        values={key: [_shown(column.get(step)) for step in kept] for key, column in columns.items()},
        next_cursor=left[0] if left else None,
        as_of_step=last_step(found),
        stale_s=found.stale_s(),
    )


def _match(known: list[str], globs: list[str]) -> tuple[list[str], list[str]]:
    wanted: dict[str, None] = {}
    missing: list[str] = []
    for glob in globs[:MAX_KEYS]:
        hits = fnmatch.filter(known, glob[:80])
        wanted.update(dict.fromkeys(hits))
        if not hits:
            missing.append(glob[:80] if glob.isprintable() and glob.isascii() else "(unprintable)")
    return list(wanted), missing


def _spikes(steps: list[int], columns: dict[str, dict[int, float | None]], points: int) -> list[int]:
    """From each bucket the steps at which a key is smallest and largest, and the last step of all."""
    per_bucket = 2 * len(columns)
    buckets = max(1, (points - 1) // per_bucket)
    size = math.ceil(len(steps) / buckets)
    kept = {steps[-1]}
    for start in range(0, len(steps), size):
        bucket = steps[start : start + size]
        for column in columns.values():
            there = [step for step in bucket if column.get(step) is not None]
            if there:
                order = [(_key(column[step]), step) for step in there]
                kept.update((min(order)[1], max(order)[1]))
    return sorted(kept)


def _key(value: float | None) -> float:
    return math.inf if value is None or math.isnan(value) else value


def _shown(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return None if value is None else float(f"{value:.6g}")
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
