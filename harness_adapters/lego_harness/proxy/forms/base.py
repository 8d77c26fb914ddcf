"""What the forms of tool calls share: the tags around a call and what lies between tags.

Invariant: a form reads a call or says that there is none; it never raises and never repairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from lego_harness.proxy.conversation import FunctionCall

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
BLANKS = " \t\r\n"

Tools = Sequence[Mapping[str, object]]
FoundCall = tuple[FunctionCall, int]
"""A call and the position behind it."""
CallReader = Callable[[int], FoundCall | None]
"""The call of a text whose opening tag ends at a position; None when it is not one."""


class Form(Protocol):
    """How a checkpoint writes a call between `<tool_call>` and `</tool_call>`."""

    name: str

    def reader(self, text: str, tools: Tools) -> CallReader:
        """Reads calls of one text; the whole text costs one pass, however many calls are broken."""
        ...


def skip_blanks(text: str, at: int) -> int:
    """The first position from `at` on that is no white space."""
    while at < len(text) and text[at] in BLANKS:
        at += 1
    return at


def close_call(text: str, at: int) -> int | None:
    """The position behind a call whose body ends at `at`; None when more stands there.

    A last call may lack its closing tag: the turn's end closes it.
    """
    at = skip_blanks(text, at)
    if text.startswith(CALL_CLOSE, at):
        return at + len(CALL_CLOSE)
    return at if at == len(text) else None
