"""Calls as JSON: `{"name": …, "arguments": {…}}` (Hermes, Qwen2.5, Qwen3).

A call is a JSON object with a name and an object of arguments; the last of equal keys holds, as
everywhere in JSON. JSON carries its own types: tools are not asked.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from lego_harness.proxy.conversation import FunctionCall
from lego_harness.proxy.forms.base import CallReader, FoundCall, Tools, close_call, skip_blanks
from lego_harness.proxy.forms.values import read_value


class HermesForm:
    """See `Form`."""

    name = "Hermes JSON"

    def reader(self, text: str, tools: Tools) -> CallReader:
        return partial(_read_call, text)


def _read_call(text: str, at: int) -> FoundCall | None:
    at = skip_blanks(text, at)
    if not text.startswith("{", at):
        return None
    try:
        value, end = read_value(text, at)
    except ValueError:
        return None
    call, behind = _as_call(value), close_call(text, end)
    return None if call is None or behind is None else (call, behind)


def _as_call(fields: dict[str, Any]) -> FunctionCall | None:
    name, arguments = fields.get("name"), fields.get("arguments")
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None
    return {"name": name, "arguments": cast("dict[str, Any]", arguments)}
