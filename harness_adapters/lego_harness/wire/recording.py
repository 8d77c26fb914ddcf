"""The recording format: JSON Lines, one request of a harness with its reply per line.

    n        1, 2, …                          t        seconds since the first request
    method, path, headers, body               what the harness sent; keys and host removed
    class, step                               how a scripted model understood it; labels for people
    reply    {"status", "json"} or {"status", "sse"}; "abort" where the stream was broken off

A value of a body, or an item of a list in it, that equals one of an earlier request is written as
`{"$ref": [n]}` or `{"$ref": [n, i]}`. Owns reading, checking and writing. Invariant: a call that
was read has no reference left; what is wrong with a file is a UsageError that names the line.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lego_harness.errors import UsageError
from lego_harness.invalid import reason
from lego_harness.proxy.strict_json import DECODER, MAX_DEPTH, is_deep, without_surrogates
from lego_harness.wire.stream import table

MAX_BYTES = 256 * 2**20
WORTH_A_REFERENCE = 200
"""Characters."""
Label = Annotated[str, Field(max_length=200)]
EXPECTED = "one recorded request: n, method, path, headers, body, reply"
HeaderName = Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}$")]
HeaderValue = Annotated[str, Field(pattern=r"^[^\x00-\x08\x0a-\x1f\x7f]*$", max_length=20_000)]


class RecordedReply(BaseModel):
    """What the server answered."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    status: int = Field(ge=100, le=599)
    whole: Any = Field(default=None, alias="json")
    sse: str | None = None
    abort: str | None = None
    """Where the stream was broken off; None when it came to its end."""


class Call(BaseModel):
    """One request and its reply."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    n: int = Field(ge=1)
    t: float = Field(default=0.0, allow_inf_nan=False)
    method: str = Field(pattern=r"^[A-Z]{1,20}$")
    path: str = Field(pattern=r"^/[!-~]*$", max_length=2000)
    headers: list[tuple[HeaderName, HeaderValue]] = []
    body: Any = None
    label: Label | None = Field(default=None, alias="class")
    step: int | None = None
    reply: RecordedReply | None = None
    """None if the harness was gone before there was one."""

    @property
    def fields(self) -> dict[str, Any]:
        """The body if it is a JSON object, else none."""
        return table(self.body)


def read_recording(path: Path) -> list[Call]:
    """The calls of a recording (`.jsonl`, or `.jsonl.gz`) in order; raises UsageError."""
    calls: list[Call] = []
    bodies: dict[int, Mapping[str, Any]] = {}
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            call = _read(line, bodies)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path}: line {number}: {_first(error)}; expected {EXPECTED}") from error
        calls.append(call)
        bodies[call.n] = call.fields
    if not calls:
        raise UsageError(f"{path}: no recorded request in it, expected one per line")
    return calls


def as_lines(calls: Sequence[Call]) -> str:
    """The file that reads as these calls, with what is repeated written as references."""
    seen: dict[tuple[str, str], list[int]] = {}
    lines: list[str] = []
    for call in calls:
        fields = call.model_dump(mode="json", by_alias=True)
        fields["reply"] = call.reply and call.reply.model_dump(by_alias=True, exclude_none=True)
        if call.fields:
            fields["body"] = {key: _short(key, value, call.n, seen) for key, value in call.fields.items()}
        lines.append(json.dumps(fields, ensure_ascii=False) + "\n")
    return "".join(lines)


def _lines(path: Path) -> list[str]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path}: cannot be read: {error}; expected a recording (.jsonl)") from error
    if len(raw) > MAX_BYTES:
        raise UsageError(f"{path}: more than {MAX_BYTES} bytes, expected a recording")
    try:
        return raw.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not text in UTF-8 ({error.reason} at byte {error.start})") from error


def _read(line: str, bodies: Mapping[int, Mapping[str, Any]]) -> Call:
    value = DECODER.decode(line)
    if is_deep(value, MAX_DEPTH + 5):
        raise ValueError("nested too deeply")
    value = without_surrogates(value)
    call = Call.model_validate(value)
    if call.n in bodies or (bodies and call.n <= max(bodies)):
        raise ValueError(f"n is {call.n}, expected more than {max(bodies)}")
    if not call.fields:
        return call
    body = {key: _resolved(key, item, bodies) for key, item in call.fields.items()}
    return call.model_copy(update={"body": body})


def _resolved(key: str, value: Any, bodies: Mapping[int, Mapping[str, Any]]) -> Any:
    if (reference := _reference(value)) is not None:
        return _referred(key, reference, bodies)
    if isinstance(value, list):
        return [
            item if (reference := _reference(item)) is None else _referred(key, reference, bodies)
            for item in cast("list[Any]", value)
        ]
    return value


def _reference(value: Any) -> list[int] | None:
    """The numbers of `{"$ref": [n]}` or `{"$ref": [n, i]}`; None for anything else."""
    if not isinstance(value, dict) or list(cast("dict[str, Any]", value)) != ["$ref"]:
        return None
    numbers = cast("dict[str, Any]", value)["$ref"]
    if not isinstance(numbers, list):
        return None
    given = cast("list[Any]", numbers)
    if len(given) not in (1, 2) or not all(type(number) is int for number in given):
        raise ValueError(f"a reference to {str(given)[:80]}, expected [n] or [n, i]")
    return given


def _referred(key: str, reference: list[int], bodies: Mapping[int, Mapping[str, Any]]) -> Any:
    n, *index = reference
    if n not in bodies or key not in bodies[n]:
        raise ValueError(f"{key} refers to {reference}, and no earlier request {n} has {key}")
    value = bodies[n][key]
    if not index:
        return value
    if not isinstance(value, list) or not 0 <= index[0] < len(cast("list[Any]", value)):
        raise ValueError(f"{key} refers to {reference}, and {key} of request {n} has no item {index[0]}")
    return cast("list[Any]", value)[index[0]]


def _short(key: str, value: Any, n: int, seen: dict[tuple[str, str], list[int]]) -> Any:
    known = _known(key, value, [n], seen)
    if known is not None or not isinstance(value, list):
        return value if known is None else {"$ref": known}
    items: list[Any] = []
    for index, item in enumerate(cast("list[Any]", value)):
        known = _known(key, item, [n, index], seen)
        items.append(item if known is None else {"$ref": known})
    return items


def _known(
    key: str, value: Any, place: list[int], seen: dict[tuple[str, str], list[int]]
) -> list[int] | None:
    """Place of an equal value in an earlier request; remembers the place of a new value that is worth a reference."""
    text = json.dumps(value)
    if len(text) < WORTH_A_REFERENCE:
        return None
    kind = (f"{key}/{len(place)}", text)
    first = seen.setdefault(kind, place)
    return first if first[0] < place[0] else None


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error) or "nested too deeply"
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ": ".join(filter(None, (".".join(map(str, found["loc"])), reason(found))))
