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

from lego_harness.proxy.forms.base import CallReader, FoundCall, Tools, close_call, skip_blanks
from lego_harness.proxy.forms.schema import declared_types, parameters_of, typed

FUNCTION = re.compile(r"<function=([^<>\s]+)>")
FUNCTION_END = "</function>"
PARAMETER = re.compile(r"<parameter=([^<>\n]+)>")
VALUE_END = re.compile(r"</parameter>(?=[ \t\r\n]*(?:<parameter=|</function>))")


class XmlForm:
    """See `Form`."""

    name = "XML-style tags"

    def reader(self, text: str, tools: Tools) -> CallReader:
        return _Reader(text, tools).read


class _Reader:
    """Knows where values may end and which positions lead nowhere, so that no text is walked twice."""

    def __init__(self, text: str, tools: Tools) -> None:
        self._text, self._tools = text, tools
        self._value_ends = [match.start() for match in VALUE_END.finditer(text)]
        self._dead_ends: set[int] = set()

    def read(self, at: int) -> FoundCall | None:
        function = FUNCTION.match(self._text, skip_blanks(self._text, at))
        if function is None:
            return None
        written, behind = self._body(function.end())
        if behind is None:
            return None
        schema = parameters_of(function[1], self._tools)
        arguments = {key: typed(value, declared_types(schema, key)) for key, value in written.items()}
        return {"name": function[1], "arguments": arguments}, behind

    def _body(self, at: int) -> tuple[dict[str, str], int | None]:
        """The parameters written from `at` on, and the position behind the call if it ends well."""
        written: dict[str, str] = {}
        walked = [at := skip_blanks(self._text, at)]
        while at not in self._dead_ends and (found := self._parameter(at)):
            key, value, at = found
            written[key] = value
            walked.append(at)
        behind = None
        if self._text.startswith(FUNCTION_END, at):
            behind = close_call(self._text, at + len(FUNCTION_END))
        if behind is None:
            self._dead_ends.update(walked)
        return written, behind

    def _parameter(self, at: int) -> tuple[str, str, int] | None:
        """Key and value of the parameter that begins at `at`, and where the next may begin."""
        opening = PARAMETER.match(self._text, at)
        if opening is None:
            return None
        index = bisect_left(self._value_ends, opening.end())
        if index == len(self._value_ends):
            return None
        end = self._value_ends[index]
        value = self._text[opening.end() : end].removeprefix("\n").removesuffix("\n")
        return opening[1], value, skip_blanks(self._text, end + len("</parameter>"))
