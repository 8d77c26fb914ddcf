"""What one session's harness sent lately, so that each request costs what it adds.

Owns the choice of the earlier request that a new one is read against: the one whose conversation it
repeats furthest, whichever of the harness's conversations that is. Invariant: the choice changes
the cost of a request and never its meaning. What it remembers is bounded in number and bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_harness.proxy.conversation import Request
from lego_harness.proxy.dialects.base import Dialect
from lego_harness.proxy.dialects.body import Body, Overlap, read_json

MAX_REMEMBERED = 8
"""Conversations that harnesses carry on at once, sub-agents included; more are read anew."""
MAX_BYTES = 32 * 2**20


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Past:
    """A request that was read."""

    dialect: str
    body: Body
    request: Request


class Reader:
    """Reads the requests of one session in the order they come."""

    def __init__(self) -> None:
        self._pasts: list[_Past] = []  # the latest last

    def read(self, dialect: Dialect, raw: bytes) -> Request:
        """The request that the bytes are; raises Refusal."""
        past, overlap = self._closest(dialect, raw)
        body = read_json(raw, dialect.grows, overlap)
        request = dialect.fold(body.value, past.request.folded if past else None)
        if past and overlap and overlap.is_whole:
            self._pasts.remove(past)  # it went on
        self._pasts.append(_Past(dialect=dialect.name, body=body, request=request))
        self._forget()
        return request

    def _closest(self, dialect: Dialect, raw: bytes) -> tuple[_Past | None, Overlap | None]:
        """The request that this one repeats furthest, the latest where several do, and how far."""
        best: tuple[_Past | None, Overlap | None] = None, None
        for past in reversed(self._pasts):
            if past.dialect == dialect.name:
                overlap = past.body.overlap(raw)
                if best[1] is None or overlap.num_bytes > best[1].num_bytes:
                    best = past, overlap
        return best

    def _forget(self) -> None:
        """Drop the oldest beyond the bounds."""
        del self._pasts[:-MAX_REMEMBERED]
        while len(self._pasts) > 1 and sum(past.body.num_bytes for past in self._pasts) > MAX_BYTES:
            del self._pasts[0]
