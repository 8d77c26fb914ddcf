"""What the server needs of a dialect, and how untrusted bodies become values.

A `Dialect` folds wire into canonical form and back; it holds no state and no tokens. Invariant:
whatever bytes arrive, the outcome is a value or a Refusal in the dialect's own error shape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from lego_harness.proxy.conversation import Reply, Request
from lego_harness.proxy.parse import finite_float, no_constant
from lego_harness.proxy.refusal import Refusal

SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
JOIN = "\n"
"""Between text blocks of one message."""


class Dialect(Protocol):
    """One API a harness may speak."""

    name: str

    def fold(self, body: dict[str, Any]) -> Request:
        """Wire → canonical; raises Refusal."""
        ...

    def unfold(self, reply: Reply) -> dict[str, Any]:
        """Canonical → the whole JSON reply."""
        ...

    def events(self, reply: Reply, *, include_usage: bool) -> Iterator[bytes]:
        """Canonical → the server-sent events of a streamed reply."""
        ...

    def keep_alive(self) -> bytes:
        """An event that says only that we are still here."""
        ...

    def error(self, refusal: Refusal) -> dict[str, Any]:
        """The body of an error answer."""
        ...

    def error_event(self, refusal: Refusal) -> bytes:
        """The same inside a stream that has begun."""
        ...


class Wire(BaseModel):
    """Base of wire models: unknown fields are ignored, because harnesses invent them."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


W = TypeVar("W", bound=Wire)


def read_body(raw: bytes) -> dict[str, Any]:
    """JSON object of a request; raises Refusal. Lone surrogates become U+FFFD."""
    try:
        value = json.loads(raw, parse_float=finite_float, parse_constant=no_constant)
        if not isinstance(value, dict):
            raise Refusal(f"the body is JSON of type {type(value).__name__}, expected an object")
        body = cast("dict[str, Any]", value)
        return _without_surrogates(body) if SURROGATE.search(raw) else body
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the body is not JSON that can be read: {str(error)[:200]}") from error


def validated(model: type[W], body: dict[str, Any]) -> W:
    """The body as a wire model; raises Refusal naming the first wrong field."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Refusal(f"{where}: {first['msg']}") from error


def asked_for(body: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The named parameters, for the record."""
    return {name: body[name] for name in names if name in body}


def compact(value: object) -> str:
    """JSON for the wire, ASCII only: it survives any client."""
    return json.dumps(value, separators=(",", ":"))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {_without_surrogates(key): _without_surrogates(item) for key, item in items}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in cast("list[Any]", value)]
    return value
