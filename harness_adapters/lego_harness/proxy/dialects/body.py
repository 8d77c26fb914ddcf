"""The bytes of a request → the JSON object they are, reading only what an earlier request did not say.

Harnesses send the whole conversation each time, so nearly all of a body is what they sent before. A
`Body` keeps the bytes of its messages beside their values; where the next body begins with the same
bytes, it takes the same values, the very objects. JSON is read from left to right, so equal bytes
have equal values, numbers and order of keys included. Invariant: what was read before changes the
cost of a body and never its value. What is new in a body has at most MAX_PARTS parts, since every value
costs time and memory, however few bytes it is. Knows the name of the list that grows, and nothing else of
a dialect.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import islice
from typing import Any, cast

from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.strict_json import DECODER, SURROGATE, without_surrogates

BLANKS = " \t\n\r"
MAX_PARTS = 250_000
"""Texts, commas and opening brackets: more than twice what the longest conversations have; a second of work."""
_PART = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[,\[{]', re.DOTALL)
"""Never walks over a character twice: what is no text to its end is one to the body's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Body:
    """One body that was read."""

    value: dict[str, Any]
    num_bytes: int
    fields: Mapping[str, tuple[str, Any]]
    """Text and value of each field whose text shows where it ends, the growing list aside."""
    prefix: bytes = b""
    """Everything up to the last item of the growing list; empty when there is no such list."""
    bounds: list[int] = field(default_factory=list[int])
    """Lengths of prefixes: up to the first item, then up to the end of each."""
    ahead: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The fields before the list."""
    items: list[Any] = field(default_factory=list[Any])

    def overlap(self, raw: bytes) -> Overlap:
        """What another body begins with as well."""
        if self.prefix and raw.startswith(self.prefix):
            num_shared = len(self.bounds)
        else:
            num_shared = bisect_left(self.bounds, True, key=lambda end: not raw.startswith(self.prefix[:end]))
        if not num_shared:
            return Overlap(body=self)
        return Overlap(body=self, num_items=num_shared - 1, num_bytes=self.bounds[num_shared - 1])


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """How far the bytes of a body are those of an earlier one."""

    body: Body
    num_items: int = 0
    num_bytes: int = 0

    @property
    def is_whole(self) -> bool:
        """All messages of the earlier body are there."""
        return self.num_items == len(self.body.items)


def read_json(raw: bytes, grows: str = "", overlap: Overlap | None = None) -> Body:
    """The body that bytes are, whose list `grows` may grow; raises Refusal."""
    try:
        reading = _Reading(raw, grows, overlap.body.fields if overlap else {})
        return reading.resumed(overlap) if overlap and overlap.num_items else reading.whole()
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the body is not JSON that can be read: {str(error)[:200]}") from error


class _Reading:
    """A walk over the top level of one body; nested values go through the decoder."""

    def __init__(self, raw: bytes, grows: str, known: Mapping[str, tuple[str, Any]]) -> None:
        self._raw, self._grows, self._known = raw, grows, known
        self._value: dict[str, Any] = {}
        self._fields: dict[str, tuple[str, Any]] = {}
        self._bounds: list[int] = []
        self._ahead: dict[str, Any] = {}
        self._items: list[Any] = []

    def whole(self) -> Body:
        self._begin(0)
        self._expect("{")
        if not self._take("}"):
            self._field()
            self._rest()
        return self._body()

    def resumed(self, overlap: Overlap) -> Body:
        """Go on behind the items that an earlier body begins with as well."""
        earlier, num = overlap.body, overlap.num_items
        self._ahead = dict(earlier.ahead)
        self._value = dict(earlier.ahead)
        self._fields = {key: known for key, known in earlier.fields.items() if key in earlier.ahead}
        self._bounds, self._items = earlier.bounds[: num + 1], earlier.items[:num]
        self._begin(overlap.num_bytes)
        self._more_items()
        self._value[self._grows] = self._items
        self._rest()
        return self._body()

    def _begin(self, offset: int) -> None:
        self._text, self._at = self._raw[offset:].decode(), 0
        if len(self._text) > MAX_PARTS and next(islice(_PART.finditer(self._text), MAX_PARTS, None), None):
            raise Refusal(
                f"the body holds more than {MAX_PARTS} values; no conversation does",
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            )
        self._has_surrogates = SURROGATE.search(self._text) is not None

    def _body(self) -> Body:
        self._skip()
        if self._at != len(self._text):
            raise ValueError("something follows the object")
        return Body(
            value=self._value,
            num_bytes=len(self._raw),
            fields=self._fields,
            prefix=self._raw[: self._bounds[-1]] if self._bounds else b"",
            bounds=self._bounds,
            ahead=self._ahead,
            items=self._items,
        )

    def _rest(self) -> None:
        while self._take(","):
            self._field()
        self._expect("}")

    def _field(self) -> None:
        self._skip()
        if not self._text.startswith('"', self._at):
            raise ValueError(f"no field name at character {self._at}")
        key = self._decode()
        self._expect(":")
        self._skip()
        if key == self._grows and self._text.startswith("[", self._at):
            self._list(key)
        else:
            self._value[key] = self._member(key)

    def _member(self, key: str) -> Any:
        """A field's value: the known one where the text is the same."""
        known = self._known.get(key)
        if known and self._text.startswith(known[0], self._at):
            self._at += len(known[0])
        else:
            start = self._at
            value = self._decode()
            if not isinstance(value, (dict, list, str)):
                return value
            known = self._text[start : self._at], cast("Any", value)
        self._fields[key] = known
        return known[1]

    def _list(self, key: str) -> None:
        self._at += 1
        self._bounds, self._ahead = [len(self._text[: self._at].encode())], dict(self._value)
        self._items = []
        if not self._take("]"):
            self._item(self._at)
            self._more_items()
        self._value[key] = self._items

    def _more_items(self) -> None:
        start = self._at
        while self._take(","):
            start = self._item(start)
        self._expect("]")

    def _item(self, start: int) -> int:
        """Read one item whose bytes, with what comes before it, begin at `start`; where it ends."""
        self._skip()
        self._items.append(self._decode())
        self._bounds.append(self._bounds[-1] + len(self._text[start : self._at].encode()))
        return self._at

    def _decode(self) -> Any:
        value, self._at = DECODER.raw_decode(self._text, self._at)
        return without_surrogates(value) if self._has_surrogates else value

    def _skip(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in BLANKS:
            self._at += 1

    def _take(self, mark: str) -> bool:
        self._skip()
        found = self._text.startswith(mark, self._at)
        self._at += found
        return found

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise ValueError(f"{self._text[self._at : self._at + 1]!r} at character {self._at}, not {mark!r}")
