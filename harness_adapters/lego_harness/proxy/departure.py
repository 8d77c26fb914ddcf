"""Why does a request not simply go on where a history ended?

    first match wins                                                   cause
    nothing was asked before in this rollout                           start
    nothing was asked before in this conversation                      sub_agent
    tools are offered, and what is new quotes a text-only reply of     compaction
      this conversation, or any part one that was asked for beside it;
      what was asked before the reply is no longer there as it was
    no turn yet; its task is what the policy wrote into a call         sub_agent
    other tools are offered                                            tools_changed
    it begins otherwise, and no question, turn or result is known      new_conversation
    all of it is known                                                 resampled, history_cut
    a reply that did not arrive is missing or different, or one of     reply_aborted
      which a delivery broke off before it did is different
    a reply is missing; something else, or a later reply, stands there reply_dropped
    a reply came back with another meaning                             reply_edited
    any other message differs or was put in between, or what stood     history_edited
      there was said in another conversation that went on with this one

Owns this table. Told from structure, never from a vendor's wording. Decides nothing about tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from lego_harness.proxy.conversation import Message, Request
from lego_harness.proxy.delegation import is_given_task
from lego_harness.proxy.echo import difference
from lego_harness.proxy.exchange import Cause, Departure, Exchange
from lego_harness.proxy.locate import Match, has_grown
from lego_harness.proxy.strict_json import encode
from lego_harness.proxy.summaries import summary
from lego_harness.text import changed, one_line


def departure(match: Match, request: Request, exchanges: Sequence[Exchange]) -> Departure:
    """The cause, for a request that is not linear; `exchanges` are those of the rollout so far."""
    same_thread = [x for x in exchanges if x.caller.thread == request.caller.thread]
    if match.leaf is None or not same_thread:
        cause = Cause.SUB_AGENT if exchanges else Cause.START
        return Departure(cause=cause, at=match.num_same if match.exchange else 0)
    quoted = summary(match, match.leaf, request, exchanges)
    if quoted is not None:
        return Departure(cause=Cause.COMPACTION, at=match.num_same, quotes=quoted.index)
    if is_given_task(request, same_thread, num_known=match.num_same):
        return Departure(cause=Cause.SUB_AGENT, at=match.num_same if match.exchange else 0)
    cause, detail = _by_difference(match, match.leaf, request, _Turns(exchanges))
    return Departure(cause=cause, at=match.num_same, detail=detail)


def _by_difference(match: Match, leaf: Exchange, request: Request, turns: _Turns) -> tuple[Cause, str]:
    at, messages = match.num_same, request.messages
    if at and request.tools != leaf.tools:
        return Cause.TOOLS_CHANGED, f"{_names(request)}, before {_names(leaf)}"
    if not at and not _known(leaf) & {_gist(message) for message in messages}:
        return Cause.NEW_CONVERSATION, ""
    asked_for = {len(x.asked): x for x in leaf.line()}
    if at >= len(messages):
        return (Cause.RESAMPLED if at in asked_for else Cause.HISTORY_CUT), ""
    if at == leaf.num_messages:
        return Cause.HISTORY_EDITED, "another conversation has gone on from here"
    held, other = [*leaf.asked, leaf.reply], messages[at]
    exchange = asked_for.get(at) or turns.who_said(held[at])
    if exchange is None and has_grown(held[at], other):
        exchange = asked_for.get(at + 1) or turns.who_said(held[at + 1])
    if exchange is None:
        return Cause.HISTORY_EDITED, _what_differs(held[at], other)
    return _about_reply(exchange, held[at], messages[at:], turns)


def _about_reply(
    exchange: Exchange, held: Message, messages: Sequence[Message], turns: _Turns
) -> tuple[Cause, str]:
    """What became of a reply where the first of the messages stands in place of `held`: of itself, or of a
    message before it that has grown."""
    other = messages[0]
    is_turn = other["role"] == "assistant"
    is_broken = not exchange.is_delivered or (exchange.was_lost and is_turn)
    if turns.is_among(exchange, messages) and not (is_turn and is_broken):
        return Cause.HISTORY_EDITED, _what_differs(held, other)
    why = turns.change(exchange, other)
    if is_broken:
        return Cause.REPLY_ABORTED, why
    if is_turn and turns.who_said(other) is None:
        return Cause.REPLY_EDITED, why
    return Cause.REPLY_DROPPED, ""


def _known(leaf: Exchange) -> set[tuple[str, str]]:
    """What a history holds; a system prompt may be that of many conversations."""
    messages = (*leaf.asked, leaf.reply)
    return {_gist(message) for message in messages if message["role"] != "system"}


def _gist(message: Message) -> tuple[str, str]:
    ids = " ".join(call["id"] for call in message.get("tool_calls", []))
    return message["role"], message["content"] or ids


class _Turns:
    """What the policy said in the rollout so far."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._exchanges = exchanges
        self._issued = {call["id"] for x in exchanges for call in x.reply.get("tool_calls", [])}

    def who_said(self, message: Message) -> Exchange | None:
        """The latest exchange whose reply the message is."""
        return next((x for x in reversed(self._exchanges) if not self.change(x, message)), None)

    def is_among(self, exchange: Exchange, messages: Sequence[Message]) -> bool:
        """Whether one of the messages is the exchange's reply."""
        return any(not self.change(exchange, message) for message in messages)

    def change(self, exchange: Exchange, message: Message) -> str:
        """Why a message is not the exchange's reply; empty when it is."""
        return difference(exchange.reply, message, exchange.defaults, self._issued)


def _what_differs(held: Message, other: Message) -> str:
    for key in ("role", "content", "tool_call_id", "tool_calls", "reasoning_content"):
        if held.get(key) != other.get(key):
            return one_line(f"its {key} {changed(_text(held.get(key)), _text(other.get(key)))}")
    return ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else encode(value)


def _names(offer: Request | Exchange) -> str:
    return "[" + ", ".join(tool["function"]["name"] for tool in offer.tools) + "]"
