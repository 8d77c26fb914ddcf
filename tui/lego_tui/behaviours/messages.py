"""Pieces of a message as plain values: what was called with what, content as text. Total. Pure."""

from __future__ import annotations

import json
from typing import Any, cast

_MAX_ENVELOPE = 400_000
_COMMAND_KEYS = ("command", "cmd", "script", "input")


def read_call(call: Any) -> tuple[str, dict[str, Any] | str]:
    """Name and arguments of a tool call; arguments that are not an object stay text."""
    function: Any = cast(dict[str, Any], call).get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return "?", text_of(call)
    table = cast(dict[str, Any], function)
    name, arguments = str(table.get("name", "?")), table.get("arguments")
    if isinstance(arguments, str):
        try:
            parsed: Any = json.loads(arguments)
        except (ValueError, RecursionError):
            return name, arguments
        return name, cast(dict[str, Any], parsed) if isinstance(parsed, dict) else arguments
    return name, cast(dict[str, Any], arguments) if isinstance(arguments, dict) else text_of(arguments)


def telling(arguments: dict[str, Any] | str) -> str:
    """The argument a person wants to see."""
    if isinstance(arguments, str):
        return arguments
    for key in _COMMAND_KEYS:
        value = arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return _joined(cast(list[Any], value))
    return json.dumps(arguments, ensure_ascii=False, default=str)


def text_of(value: Any) -> str:
    """Content as text: strings as they are, parts one after another."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = cast(list[Any], value)
        return "\n".join(
            str(cast(dict[str, Any], p).get("text", "")) if isinstance(p, dict) else str(p) for p in parts
        )
    return "" if value is None else json.dumps(value, default=str, ensure_ascii=False)


def unpacked(text: str) -> str:
    """A tool's JSON envelope of exit code and output, unpacked for reading; other text as it is."""
    if not text.startswith("{") or len(text) > _MAX_ENVELOPE:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    table = cast(dict[str, Any], value) if isinstance(value, dict) else {}
    output = table.get("output")
    if isinstance(output, str) and "returncode" in table:
        head = "" if table["returncode"] == 0 else f"exit {table['returncode']}\n"
        return head + (output.rstrip("\n") or "(no output)")
    return text


def _joined(words: list[Any]) -> str:
    """`["bash", "-lc", "make test"]` is its last word, any other list its words."""
    if len(words) == 3 and str(words[1]).startswith("-") and str(words[1]).endswith("c"):
        return str(words[2])
    return " ".join(map(str, words))
