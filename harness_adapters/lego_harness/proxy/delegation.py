"""Does a conversation begin with a task that the policy wrote into a call?

Harnesses that name their conversations say so by headers (`caller.py`); this is for those that do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lego_harness.proxy.conversation import Request
from lego_harness.proxy.exchange import Cause, Exchange

MIN_TASK = 12
"""Characters; shorter texts may recur by chance."""


def is_given_task(request: Request, exchanges: Sequence[Exchange], *, num_known: int) -> bool:
    """Whether a conversation begins with what a call says, as where a harness names no sub-agents; with the
    same task as often as calls gave it."""
    if any(message["role"] == "assistant" for message in request.messages):
        return False
    asked = [message["content"].strip() * (message["role"] == "user") for message in request.messages]
    given = [one for one in _given_tasks(exchanges) if any(_is_told(*one, text) for text in asked)]
    begun = sum(x.departure.cause is Cause.SUB_AGENT and x.asked == request.messages for x in exchanges)
    is_new = any(_is_told(*one, text) for one in given for text in asked[num_known:])
    return is_new or 0 < begun < len(given)


def _given_tasks(exchanges: Sequence[Exchange]) -> Iterator[tuple[str, bool]]:
    """The texts that calls hand over, and whether the call has no result yet."""
    added = (message for exchange in exchanges for message in exchange.asked[-exchange.num_added :])
    answered = {message.get("tool_call_id") for message in added}
    for call in (call for exchange in exchanges for call in exchange.reply.get("tool_calls", [])):
        arguments = call["function"]["arguments"]
        for value in arguments.values() if isinstance(arguments, dict) else ():
            if isinstance(value, str) and len(value.strip()) >= MIN_TASK:
                yield value.strip(), call["id"] not in answered


def _is_told(task: str, is_open: bool, text: str) -> bool:
    """Whether a text is the task, or while its call is open ends with it, whatever a harness puts before."""
    return text == task or (is_open and text.endswith(f"\n{task}"))
