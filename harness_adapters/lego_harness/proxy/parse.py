"""Sampled text → reasoning, content and tool calls, in the form of the checkpoint.

Owns where a thought ends and what is text:

    thought   stands first: behind `<think>`, or at once where the generation prompt opened it
    its end   `</think>` or a readable call, whichever comes first; with neither, the first
              `<tool_call>`; with none of them it is unfinished, and all there is
    content   the rest without its calls. A call that cannot be read stays visible, so that the
              harness and the reward see what the policy did

Invariant: never raises and never repairs. Sampled ids are not touched here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lego_harness.proxy.conversation import FunctionCall
from lego_harness.proxy.forms.base import BLANKS, CALL_OPEN, Form, Tools

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedReply:
    """What a sampled text says."""

    reasoning: str
    content: str
    calls: tuple[FunctionCall, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Placed:
    """A call and where its text stands."""

    call: FunctionCall
    start: int
    end: int


def parse_reply(
    text: str, form: Form, tools: Tools = (), *, thought_is_open: bool = False, reads_calls: bool = True
) -> ParsedReply:
    """Read a reply, its end-of-turn token removed; without `reads_calls` a call is text like any other."""
    reasoning, said = _split_thought(text, form, tools, thought_is_open)
    placed = list(_calls(said, form, tools)) if reads_calls else []
    starts = [0, *(call.end for call in placed)]
    ends = [*(call.start for call in placed), len(said)]
    texts = [said[start:end] for start, end in zip(starts, ends, strict=True)]
    return ParsedReply(reasoning=reasoning, content=_content(texts), calls=tuple(c.call for c in placed))


def _split_thought(text: str, form: Form, tools: Tools, is_open: bool) -> tuple[str, str]:
    """Reasoning and what is said behind it."""
    start = text.lstrip(BLANKS)
    if not is_open and not start.startswith(THINK_OPEN):
        return "", text
    thought = start.removeprefix(THINK_OPEN) if start.startswith(THINK_OPEN) else text
    end, said_from = _end_of_thought(thought, form, tools)
    return thought[:end].strip("\n"), thought[said_from:].lstrip("\n")


def _end_of_thought(text: str, form: Form, tools: Tools) -> tuple[int, int]:
    """Where the thought ends and where speech begins."""
    close, first = text.find(THINK_CLOSE), text.find(CALL_OPEN)
    call = next((placed.start for placed in _calls(text, form, tools)), -1)
    if close >= 0 and not 0 <= call < close:
        return close, close + len(THINK_CLOSE)
    end = call if call >= 0 else first if first >= 0 else len(text)
    return end, end


def _calls(text: str, form: Form, tools: Tools) -> Iterator[_Placed]:
    """The calls that can be read, in order."""
    read_call, at = form.reader(text, tools), 0
    while (start := text.find(CALL_OPEN, at)) >= 0:
        at = start + len(CALL_OPEN)
        if found := read_call(at):
            call, at = found
            yield _Placed(call=call, start=start, end=at)


def _content(texts: list[str]) -> str:
    """Text around calls, without the line breaks that only separate it from them."""
    if len(texts) == 1:
        return texts[0]
    first, *others = texts
    kept = [first.rstrip("\n"), *(text.strip("\n") for text in others)]
    return "\n".join(text for text in kept if text.strip(BLANKS))
