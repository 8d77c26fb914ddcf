"""Results that fit into a context window.

Owns the budget of one result and its cursors. Invariant: a page is never empty while there is something
left, and never larger than the budget unless a single row is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel

from lego_control.failures import Refusal

RESULT_BYTES = 20_000
"""JSON bytes: 8,000 tokens at 2.5 bytes each, as in numbers and identifiers."""
RESERVED = 2_500
"""Room for everything besides the rows."""
T = TypeVar("T", bound=BaseModel)


def page(
    rows: Iterable[T], start: int, limit: int, budget: int = RESULT_BYTES - RESERVED
) -> tuple[list[T], str | None]:
    """The first rows that fit, and the cursor of the rest; `start` is the place of the first."""
    taken: list[T] = []
    used = 0
    for row in rows:
        used += size_of(row)
        if taken and (used > budget or len(taken) == limit):
            return taken, str(start + len(taken))
        taken.append(row)
    return taken, None


def size_of(row: BaseModel) -> int:
    """Bytes of a row in its list."""
    return len(row.model_dump_json().encode()) + 1


def place(cursor: str | None) -> int:
    """Where a page begins. Raises Refusal for a cursor that is not ours."""
    if not cursor:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 12:
        raise Refusal(
            "bad_cursor", "that is no cursor of this tool", "use next_cursor of the last result, or none"
        )
    return int(cursor)
