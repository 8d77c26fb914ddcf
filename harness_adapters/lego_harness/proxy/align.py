"""Does a request continue the conversation we hold, and with what?

Invariant: a request that is not exactly the held conversation plus new messages raises
AlignmentError with the first differing message and the cause; guessing would train on tokens the
engine never saw. Compares canonical messages only; what counts as an unchanged echo is `echo.py`'s.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any, cast

from lego_harness.errors import AlignmentError
from lego_harness.proxy.conversation import Message, Request, Tool
from lego_harness.proxy.echo import difference


def new_messages(
    held: Sequence[Message], sampled_at: Set[int], tools: Sequence[Tool], request: Request
) -> list[Message]:
    """The messages that `request` adds behind `held`; those at `sampled_at` are the policy's own."""
    if request.tools != list(tools):
        raise AlignmentError(f"the tools on offer changed: {_names(request.tools)}, expected {_names(tools)}")
    defaults = _declared_defaults(tools)
    for index, message in enumerate(held):
        if index >= len(request.messages):
            raise AlignmentError(_too_short(index, len(held), sampled_at))
        other = request.messages[index]
        cause = (
            difference(message, other, defaults) if index in sampled_at else _plain_difference(message, other)
        )
        if cause:
            raise AlignmentError(f"message {index} of {len(held)} ({message['role']}) differs: {cause}")
    added = request.messages[len(held) :]
    _refuse_foreign_turns(added, len(held))
    return added


def messages_without_last_reply(
    asked: Sequence[Message], sampled_at: Set[int], tools: Sequence[Tool], request: Request
) -> bool:
    """True when `request` is the last one, `asked`, continued as if its reply had never come.

    Harnesses do so when they cannot read a reply: they add a complaint behind the messages, or to
    the last of them.
    """
    others = request.messages[: len(asked)]
    if not asked or len(others) < len(asked) or len(asked) - 1 in sampled_at:
        return False
    last, other = asked[-1], others[-1]
    has_grown = _has_grown(last, other)
    if other != last and not has_grown:
        return False
    resumed = replace(request, messages=[*others[:-1], last, *request.messages[len(asked) :]])
    try:
        added = new_messages(asked[:-1], sampled_at, tools, resumed)
    except AlignmentError:
        return False
    return has_grown or len(added) > 1


def _has_grown(last: Message, other: Message) -> bool:
    """The same message with text behind it."""
    same_but_text = other == {**last, "content": other["content"]}
    return same_but_text and other != last and other["content"].startswith(last["content"])


def _too_short(index: int, num_held: int, sampled_at: Set[int]) -> str:
    if index == num_held - 1 and index in sampled_at:
        return f"message {index} is missing: the request repeats one whose reply was delivered"
    return f"message {index} of {num_held} is missing: the history was cut"


def _plain_difference(held: Message, other: Message) -> str:
    for key in ("role", "content", "tool_call_id", "tool_calls", "reasoning_content"):
        if held.get(key) != other.get(key):
            return f"its {key} was {_short(held.get(key))} and is {_short(other.get(key))}"
    return ""


def _refuse_foreign_turns(added: Sequence[Message], first: int) -> None:
    if not added:
        raise AlignmentError("the request adds no message behind the last reply")
    for offset, message in enumerate(added):
        if message["role"] == "assistant":
            raise AlignmentError(f"message {first + offset} is an assistant turn that was not sampled here")


def _declared_defaults(tools: Sequence[Tool]) -> dict[str, dict[str, Any]]:
    return {tool["function"]["name"]: _defaults(tool["function"].get("parameters", {})) for tool in tools}


def _defaults(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    named = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
    return {
        key: spec["default"] for key, spec in named.items() if isinstance(spec, dict) and "default" in spec
    }


def _names(tools: Sequence[Tool]) -> str:
    return "[" + ", ".join(tool["function"]["name"] for tool in tools) + "]"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:80]} … {text[-60:]} ({len(text)} characters)"
