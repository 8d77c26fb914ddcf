"""Finds trajectories: by the index in milliseconds, by their text within a time budget, with a cursor.

Invariants: a pattern cannot take forever (each match has a time limit, and so have all matches in a trajectory), no
search reads longer than its time budget, and no answer is larger than its size budget.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import regex

from lego_control.failures import Refusal
from lego_control.fence import fence
from lego_control.fence import name as plain
from lego_control.run import Run
from lego_control.runs import Runs
from lego_control.schemas import Trajectories, TrajectoryRow
from lego_control.tools.frames import load, message_text
from lego_control.tools.paging import RESERVED, RESULT_BYTES, page, place, size_of
from lego_control.tools.status import last_step

ORDERS = {
    "newest": "seq DESC",
    "oldest": "seq",
    "worst": "reward IS NULL, reward, seq DESC",
    "best": "reward DESC, seq DESC",
    "longest": "sampled DESC, seq",
}
SEARCH_S = 4.0
MATCH_S = 0.2
EXCERPT = 300
MAX_PATTERN = 300


def trajectories_search(
    runs: Runs, run: str, first_step: int = 0, last_step_: int | None = None, task: str = "", stop_reason: str = "",
    min_reward: float | None = None, max_reward: float | None = None, is_graded: bool | None = None, text: str = "",
    is_regex: bool = False, sort: str = "newest", evaluations: bool = False, limit: int = 30, cursor: str | None = None,
) -> Trajectories:  # fmt: skip
    """Rows with handles; counts by stop reason, reward and step over all matches."""
    if sort not in ORDERS:
        raise Refusal("bad_argument", "unknown order", f"sort by one of {', '.join(ORDERS)}")
    found = runs.get(run)
    found.index.refresh("steps", "trajectories")
    where, values = _where(
        first_step, last_step_, task, stop_reason, min_reward, max_reward, is_graded, evaluations
    )
    start = place(cursor)
    rows = _rows(
        found, f"{where} ORDER BY {ORDERS[sort]} LIMIT {10_000 if text else limit + 1} OFFSET {start}", values
    )
    warnings: list[str] = []
    if text:
        pattern = _pattern(text, is_regex)
        taken, following = _search(found, rows, pattern, start, limit, warnings)
        count = None
    else:
        taken, following = page(rows, start, limit)
        count = found.index.rows(f"SELECT COUNT(*) FROM trajectory WHERE {where}", values)[0][0]
    return Trajectories(
        run=run,
        n_matching=count,
        rows=taken,
        facets=_facets(found, where, values),
        next_cursor=following,
        as_of_step=last_step(found),
        stale_s=found.stale_s(),
        warnings=warnings,
    )


def _where(
    first: int, last: int | None, task: str, stop: str, low: float | None, high: float | None, graded: bool | None, evaluations: bool
) -> tuple[str, list[Any]]:  # fmt: skip
    parts, values = ["step IS NULL"] if evaluations else ["step BETWEEN ? AND ?"], list[Any]()
    if not evaluations:
        values += [first, last if last is not None else 2**62]
    for condition, value in (("task = ?", task), ("stop_reason = ?", stop)):
        if value:
            parts.append(condition)
            values.append(value)
    for condition, bound in (("reward >= ?", low), ("reward <= ?", high)):
        if bound is not None:
            parts.append(condition)
            values.append(bound)
    if graded is not None:
        parts.append("reward IS NOT NULL" if graded else "reward IS NULL")
    return " AND ".join(parts), values


def _rows(run: Run, where: str, values: list[Any]) -> Iterator[TrajectoryRow]:
    question = f"SELECT id, step, task, stop_reason, reward, sampled FROM trajectory WHERE {where}"
    for handle, step, task, stop, reward, sampled in run.index.rows(question, values):
        yield TrajectoryRow(
            handle=plain(str(handle)),
            step=step,
            task=plain(str(task)),
            stop_reason=plain(str(stop)),
            reward=reward,
            sampled=sampled or 0,
        )


def _facets(run: Run, where: str, values: list[Any]) -> dict[str, dict[str, int]]:
    asked = {
        "stop_reason": "stop_reason",
        "reward": "CASE WHEN reward IS NULL THEN 'none' WHEN reward >= 1 THEN '1' WHEN reward <= 0 THEN '0' ELSE 'partial' END",
    }
    return {
        facet: {
            plain(str(value)): count
            for value, count in run.index.rows(
                f"SELECT {what}, COUNT(*) FROM trajectory WHERE {where} GROUP BY 1", values
            )
        }
        for facet, what in asked.items()
    }


def _pattern(text: str, is_regex: bool) -> regex.Pattern[str]:
    if len(text) > MAX_PATTERN:
        raise Refusal(
            "bad_argument", f"a text of {len(text)} characters", f"search for at most {MAX_PATTERN}"
        )
    try:
        return regex.compile(text if is_regex else regex.escape(text), regex.IGNORECASE)
    except regex.error as error:
        raise Refusal(
            "bad_argument", "that is no regular expression", "set is_regex to false, or correct it"
        ) from error


def _search(
    run: Run,
    rows: Iterator[TrajectoryRow],
    pattern: regex.Pattern[str],
    start: int,
    limit: int,
    warnings: list[str],
) -> tuple[list[TrajectoryRow], str | None]:
    """Search one trajectory after another until the page is full or the time is up."""
    until = time.monotonic() + SEARCH_S
    hits: list[TrajectoryRow] = []
    looked, room = 0, RESULT_BYTES - RESERVED
    for looked, row in enumerate(rows, start=1):
        try:
            excerpt = _excerpt(run, row.handle, pattern)
        except Refusal as error:
            if error.code == "slow_pattern":
                raise
            warnings.append(f"{row.handle} cannot be read")
            continue
        if excerpt:
            hit = row.model_copy(update={"excerpt": fence(excerpt, "trajectory", EXCERPT)})
            room -= size_of(hit)
            if hits and room < 0:
                return hits, str(start + looked - 1)
            hits.append(hit)
        if len(hits) == limit or len(warnings) > 20 or time.monotonic() > until:
            return hits, str(start + looked)
    return hits, str(start + looked) if looked == 10_000 else None


def _excerpt(run: Run, handle: str, pattern: regex.Pattern[str]) -> str | None:
    messages = load(run, handle).messages
    until = time.monotonic() + SEARCH_S
    for message in messages:
        text = message_text(message)
        left = until - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            hit = pattern.search(text, timeout=min(MATCH_S, left))
        except TimeoutError as error:
            raise Refusal(
                "slow_pattern",
                f"the pattern took more than {MATCH_S} s on one message, or {SEARCH_S} s on one trajectory",
                "search for plain text (is_regex: false), or without nested repetition",
            ) from error
        if hit:
            return text[max(hit.start() - EXCERPT // 3, 0) : hit.end() + EXCERPT // 3]
    return None
