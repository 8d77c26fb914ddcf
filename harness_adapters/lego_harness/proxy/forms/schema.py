"""Texts of parameters → values of the types that a tool declares for them.

A text is a value when it is JSON (or Python's `True`, `False`, `None`, which older templates write)
of a declared type. Otherwise it stays text if text is declared, or if it is no JSON; the harness
then says what it thinks of it. An undeclared parameter is text. Nothing is repaired or dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from lego_harness.proxy.forms.values import whole_value

PYTHON = {"True": True, "False": False, "None": None}
CHOICES = ("anyOf", "oneOf", "allOf")

Schema = Mapping[str, Any]


def parameters_of(name: str, tools: Sequence[Mapping[str, object]]) -> Schema:
    """The JSON schema of a tool's parameters; empty when it has none that can be read."""
    for tool in tools:
        function = _mapping(tool.get("function"))
        if function.get("name") == name:
            return _mapping(function.get("parameters"))
    return {}


def declared_types(schema: Schema, key: str) -> frozenset[str]:
    """JSON schema's names of the types that parameter `key` may have."""
    declared = frozenset(_types(_mapping(_mapping(schema.get("properties")).get(key)), schema))
    return declared or frozenset({"string"})


def typed(text: str, types: frozenset[str]) -> Any:
    """The value that `text` writes."""
    if not types - {"string"}:
        return text
    try:
        value = PYTHON[text] if text in PYTHON else whole_value(text)
    except ValueError:
        return text
    return text if "string" in types and not types & _types_of(value) else value


def _types(schema: Schema, root: Schema) -> Iterator[str]:
    """Types that a schema names, through choices and references; each reference is followed once."""
    pending, followed = [schema], set[str]()
    while pending:
        schema = pending.pop()
        named = schema.get("type")
        yield from (name for name in _sequence(named, named) if isinstance(name, str))
        for value in (*_sequence(schema.get("enum")), *([schema["const"]] if "const" in schema else [])):
            yield from _types_of(value)
        pending += [_mapping(choice) for name in CHOICES for choice in _sequence(schema.get(name))]
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in followed:
            followed.add(reference)
            pending.append(_referred(reference, root))


def _referred(reference: str, root: Schema) -> Schema:
    """What a reference within the schema, such as `#/$defs/Mode`, points at."""
    at = root
    for part in reference.removeprefix("#/").split("/"):
        at = _mapping(at.get(part))
    return at


def _types_of(value: object) -> frozenset[str]:
    if value is None:
        return frozenset({"null"})
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int):
        return frozenset({"integer", "number"})
    names: dict[type, str] = {float: "number", str: "string", list: "array", dict: "object"}
    return frozenset({names[type(value)]})


def _mapping(value: object) -> Schema:
    return cast("Schema", value) if isinstance(value, Mapping) else {}


def _sequence(value: object, *otherwise: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list) else otherwise
