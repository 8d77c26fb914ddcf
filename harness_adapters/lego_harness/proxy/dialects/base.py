"""What the server needs of a dialect, and what dialects have in common.

A `Dialect` folds wire into canonical form and back; it holds no state and no tokens. Invariant:
whatever JSON arrives, the outcome is a value or a Refusal in the dialect's own error shape. Fields
that nobody here knows are ignored, because harnesses invent them; what cannot be honoured and would
change the meaning is refused by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Protocol, TypeVar, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from lego_harness.invalid import reason
from lego_harness.proxy.conversation import FunctionSpec, Reply, Request, Tool
from lego_harness.proxy.dialects.folding import Folded
from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.strict_json import MAX_DEPTH, encode, is_deep, read_object

JOIN = "\n"
"""Between text blocks of one message."""
MAX_NAME = 200
MAX_ASKED = 2000


class Dialect(Protocol):
    """One API a harness may speak."""

    name: str
    grows: str
    """The field that holds the conversation."""

    def fold(self, body: dict[str, Any], earlier: Folded | None = None) -> Request:
        """Wire → canonical; raises Refusal. What shares its objects with `earlier` costs nothing."""
        ...

    def unfold(self, reply: Reply) -> dict[str, Any]:
        """Canonical → the whole JSON reply."""
        ...

    def events(self, reply: Reply, *, include_usage: bool) -> Iterator[bytes]:
        """Canonical → the server-sent events of a streamed reply."""
        ...

    def keep_alive(self) -> bytes:
        """Something that says only that we are still here."""
        ...

    def error(self, refusal: Refusal) -> dict[str, Any]:
        """The body of an error answer."""
        ...

    def error_event(self, refusal: Refusal) -> bytes:
        """The same inside a stream that has begun, before any event of a reply."""
        ...


class Wire(BaseModel):
    """Base of wire models."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


def _shallow(value: dict[str, Any]) -> dict[str, Any]:
    if is_deep(value):
        raise ValueError(f"more than {MAX_DEPTH} levels of nesting")
    return value


FreeJson = Annotated[dict[str, Any], AfterValidator(_shallow)]
"""An object whose fields are nobody's business here."""


class Head(Wire):
    """What every request may say beside its conversation."""

    model: str = ""
    stream: bool | None = None


W = TypeVar("W", bound=Wire)


def validated(model: type[W], body: Mapping[str, Any]) -> W:
    """The body as a wire model; raises Refusal naming the first wrong field."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise Refusal(_first(error)) from error


def validated_items(items: TypeAdapter[list[W]], wire: Sequence[Any], name: str, first: int = 0) -> list[W]:
    """A part of the list `name` as wire models, its first item being at that index."""
    try:
        return items.validate_python(wire)
    except ValidationError as error:
        raise Refusal(_first(error, name, first)) from error


def _first(error: ValidationError, name: str = "", first: int = 0) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = found["loc"]
    if name:
        where = (name, first + int(where[0]), *where[1:]) if where else (name,)
    return f"{'.'.join(map(str, where))}: {reason(found)}"


def request_of(
    folded: Folded, head: Head, *, dialect: str, asked: dict[str, Any], include_usage: bool = True
) -> Request:
    """The request that a folded conversation and the rest of its body make."""
    return Request(
        dialect=dialect,
        messages=folded.messages,
        tools=folded.offered.tools,
        stream=bool(head.stream),
        model=head.model[:MAX_NAME],
        asked=asked,
        include_usage=include_usage,
        call_forms=folded.offered.call_forms,
        fingerprint=hashlib.sha256(dialect.encode() + folded.digest).hexdigest(),
        folded=folded,
    )


def conversation(body: Mapping[str, Any], name: str) -> list[Any]:
    """The list that holds the conversation, its items not looked at; raises Refusal."""
    wire = body.get(name)
    if not isinstance(wire, list) or not wire:
        raise Refusal(f"{name}: a list of at least one message is required")
    return cast("list[Any]", wire)


def asked_for(body: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The named parameters, for the record; a long one as the beginning of its JSON text."""
    return {name: _short(body[name]) for name in names if name in body}


def _short(value: Any) -> Any:
    if is_deep(value):
        return f"nested more than {MAX_DEPTH} levels"
    text = encode(value)
    return value if len(text) <= MAX_ASKED else f"{text[:MAX_ASKED]}…"


def field_of(wire: object, name: str) -> object:
    """A field of something that was not validated; None where there is none."""
    return cast("dict[str, object]", wire).get(name) if isinstance(wire, dict) else None


def read_arguments(text: str) -> dict[str, Any] | str:
    """Arguments of a call as another program wrote them; the text itself where it is no object."""
    arguments = read_object(text or "{}")
    return text if arguments is None else arguments


def function(name: str, description: str | None, parameters: dict[str, Any] | None) -> Tool:
    """A tool on offer, without the parts that were not given."""
    spec: FunctionSpec = {"name": name}
    if description is not None:
        spec["description"] = description
    if parameters is not None:
        spec["parameters"] = parameters
    return {"type": "function", "function": spec}
