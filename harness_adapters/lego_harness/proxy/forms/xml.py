"""Calls as tags: `<function=NAME>` around `<parameter=KEY>` (Qwen3-Coder, Qwen3.5 and later).

    <tool_call>
    <function=NAME>
    <parameter=KEY>
    VALUE
    </parameter>
    </function>
    </tool_call>

Blanks between tags mean nothing. A value ends at the first `</parameter>` that the next parameter or
the function's end follows, so it may hold any text but that; one newline on each side belongs to
the tags. Of equal keys the last one holds. Values have the types the tool declares (`schema.py`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache

from lego_harness.proxy.forms.base import FoundCall, Tools, close_call, skip_blanks
from lego_harness.proxy.forms.schema import declared_types, parameters_of, typed

FUNCTION = re.compile(r"<function=([^<>\s]+)>")
FUNCTION_CLOSE = "</function>"
PARAMETER = re.compile(r"<parameter=([^<>\n]+)>")
PARAMETER_CLOSE = re.compile(r"</parameter>(?=[ \t\r\n]*(?:<parameter=|</function>))")


class XmlForm:
    """See `Form`."""

    name = "XML-style tags"

    def read_call(self, text: str, at: int, tools: Tools) -> FoundCall | None:
        function = FUNCTION.match(text, skip_blanks(text, at))
        if function is None:
            return None
        written, end = _parameters(text, function.end())
        if not text.startswith(FUNCTION_CLOSE, end):
            return None
        behind = close_call(text, end + len(FUNCTION_CLOSE))
        if behind is None:
            return None
        schema = parameters_of(function[1], tools)
        arguments = {key: typed(value, declared_types(schema, key)) for key, value in written.items()}
        return {"name": function[1], "arguments": arguments}, behind


def _parameters(text: str, at: int) -> tuple[dict[str, str], int]:
    """The parameters written from `at` on and the first position that belongs to none."""
    written: dict[str, str] = {}
    at = skip_blanks(text, at)
    while parameter := PARAMETER.match(text, at):
        closes = _value_ends(text)
        index = bisect_left(closes, parameter.end())
        if index == len(closes):
            break
        value = text[parameter.end() : closes[index]]
        written[parameter[1]] = value.removeprefix("\n").removesuffix("\n")
        at = skip_blanks(text, closes[index] + len("</parameter>"))
    return written, at


@lru_cache(maxsize=1)
def _value_ends(text: str) -> list[int]:
    """Where values may end; found once per text, else many unfinished calls would cost a square."""
    return [match.start() for match in PARAMETER_CLOSE.finditer(text)]
