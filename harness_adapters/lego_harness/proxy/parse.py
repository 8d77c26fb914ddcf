"""Sampled text → reasoning, content and tool calls, in Qwen3's (Hermes) form.

Owns the reading of `<tool_call>{json}</tool_call>`. Invariant: never raises and never repairs; a
call that is no valid JSON object with a name and arguments stays visible in the content, so that
the harness and the reward see what the policy did. Sampled ids are not touched here.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from lego_harness.proxy.conversation import FunctionCall

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
BLANKS = " \t\r\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedReply:
    """What a sampled text says."""

    reasoning: str
    content: str
    calls: tuple[FunctionCall, ...]


def parse_reply(text: str) -> ParsedReply:
    """Read a reply, its end-of-turn token removed."""
    reasoning, text = _split_reasoning(text)
    texts: list[str] = []
    calls: list[FunctionCall] = []
    text_from = at = 0
    while (start := text.find(CALL_OPEN, at)) >= 0:
        found = _read_call(text, start + len(CALL_OPEN))
        if found is None:
            at = start + len(CALL_OPEN)
            continue
        call, end = found
        calls.append(call)
        texts.append(text[text_from:start])
        text_from = at = end
    texts.append(text[text_from:])
    return ParsedReply(reasoning=reasoning, content=_content(texts), calls=tuple(calls))


def _split_reasoning(text: str) -> tuple[str, str]:
    if not text.lstrip(BLANKS).startswith(THINK_OPEN) or THINK_CLOSE not in text:
        return "", text
    thought, _, rest = text.partition(THINK_CLOSE)
    return thought.lstrip(BLANKS).removeprefix(THINK_OPEN).strip("\n"), rest.lstrip("\n")


def _content(texts: list[str]) -> str:
    """Text around calls, without the line breaks that only separate it from them."""
    if len(texts) == 1:
        return texts[0]
    first, *others = texts
    kept = [first.rstrip("\n"), *(text.strip("\n") for text in others)]
    return "\n".join(text for text in kept if text.strip(BLANKS))


def _read_call(text: str, at: int) -> tuple[FunctionCall, int] | None:
    """The call whose JSON starts at `at` and the position behind it; None when it is not one.

    A last call may lack its closing tag: the turn's end closes it.
    """
    try:
        value, end = _STRICT.raw_decode(text, _skip_blanks(text, at))
        call = _as_call(value)
    except (ValueError, RecursionError):
        return None
    end = _skip_blanks(text, end)
    if text.startswith(CALL_CLOSE, end):
        return call, end + len(CALL_CLOSE)
    return (call, end) if end == len(text) else None


def _as_call(value: object) -> FunctionCall:
    if not isinstance(value, dict):
        raise ValueError("no object")
    fields = cast("dict[str, Any]", value)
    name, arguments = fields.get("name"), fields.get("arguments")
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        raise ValueError("no name or arguments")
    json.dumps(fields, ensure_ascii=False).encode()  # a lone surrogate cannot travel: ValueError
    return {"name": name, "arguments": arguments}


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in BLANKS:
        at += 1
    return at


def finite_float(text: str) -> float:
    """A JSON number that stays a JSON number; raises ValueError for 1e999."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:32]} is out of range")
    return number


def no_constant(name: str) -> NoReturn:
    """NaN and Infinity are Python's, not JSON's; raises ValueError."""
    raise ValueError(f"{name} is not JSON")


_STRICT = json.JSONDecoder(parse_float=finite_float, parse_constant=no_constant)
