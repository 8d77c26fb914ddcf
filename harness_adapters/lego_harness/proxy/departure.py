"""Why does a request not simply go on where a history ended?

    first match wins                                                   cause
    nothing was asked before in this rollout                           start
    nothing was asked before in this conversation                      sub_agent
    tools are offered, and what is new quotes a text-only reply of     compaction
      this conversation, or any part one that was asked for beside it;
      what was asked before the reply is no longer there as it was
    other tools are offered                                            tools_changed
    neither its first nor its second message is known                  new_conversation
    all of it is known                                                 resampled, history_cut
    a reply of which a delivery broke off is missing or different      reply_aborted
    a reply is missing; something else stands there                    reply_dropped
    a reply came back with another meaning                             reply_edited
    any other message differs, or what stood there was said in         history_edited
      another conversation that went on with this one

Owns this table. Told from structure, never from a vendor's wording. Decides nothing about tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lego_harness.proxy.conversation import Message, Request
from lego_harness.proxy.exchange import Cause, Departure, Exchange
from lego_harness.proxy.locate import Match, has_grown
from lego_harness.proxy.strict_json import encode
from lego_harness.text import changed, one_line

MIN_QUOTE = 12
"""Characters; shorter lines may recur by chance."""
_TAG = re.compile(r"</?[a-zA-Z_]+>")


def departure(match: Match, request: Request, exchanges: Sequence[Exchange]) -> Departure:
    """The cause, for a request that is not linear; `exchanges` are those of the rollout so far."""
    same_thread = [x for x in exchanges if x.caller.thread == request.caller.thread]
    if match.leaf is None or not same_thread:
        cause = Cause.SUB_AGENT if exchanges else Cause.START
        return Departure(cause=cause, at=match.num_same if match.exchange else 0)
    quoted = _summary(match, match.leaf, request, same_thread)
    if quoted is not None:
        return Departure(cause=Cause.COMPACTION, at=match.num_same, quotes=quoted.index)
    cause, detail = _by_difference(match, match.leaf, request)
    return Departure(cause=cause, at=match.num_same, detail=detail)


def _summary(
    match: Match, leaf: Exchange, request: Request, exchanges: Sequence[Exchange]
) -> Exchange | None:
    """The latest text-only reply that the history is begun anew around."""
    if not request.tools and any(exchange.tools for exchange in exchanges):
        return None  # a question beside the conversation, which may well show what was said before
    held = {(message["role"], message["content"]) for message in leaf.asked}
    new = [m for m in request.messages[match.num_same :] if (m["role"], m["content"]) not in held]
    known = {longest_line(exchange.reply) for exchange in exchanges if exchange.is_quoted}
    for exchange in reversed(exchanges):
        line = longest_line(exchange.reply)
        if len(line) < MIN_QUOTE or _is_still_asked(exchange, request):
            continue
        # A policy may sum up in the same words each time; then what quotes them is not new.
        messages = request.messages if line in known and not exchange.is_quoted else new
        may_be_turn = exchange.index > leaf.index and not exchange.is_quoted
        if any(_is_around(exchange.reply, line, message, may_be_turn) for message in messages):
            return exchange
    return None


def _is_still_asked(exchange: Exchange, request: Request) -> bool:
    """Whether all that the reply answered is there as it was: what quotes it may be a complaint about it."""
    return request.messages[: len(exchange.asked)] == exchange.asked


def _is_around(reply: Message, line: str, message: Message, may_be_turn: bool) -> bool:
    """Whether a message holds the line, or is the reply where it was no turn of the history before."""
    if message["role"] == "assistant":
        return may_be_turn and message["content"].strip() == reply["content"].strip()
    return message["role"] in ("user", "system") and line in message["content"]


def longest_line(reply: Message) -> str:
    """What a quotation of the reply would hold; empty for one that calls tools."""
    if reply.get("tool_calls"):
        return ""
    return max((line.strip() for line in _TAG.split(reply["content"].replace("\n", "<n>"))), key=len)


def _by_difference(match: Match, leaf: Exchange, request: Request) -> tuple[Cause, str]:
    at, messages = match.num_same, request.messages
    if at and request.tools != leaf.tools:
        return Cause.TOOLS_CHANGED, f"{_names(request)}, before {_names(leaf)}"
    if not at and messages[1:2] != leaf.asked[1:2]:
        return Cause.NEW_CONVERSATION, ""
    asked_for = {len(x.asked): x for x in leaf.line()}
    if at >= len(messages):
        return (Cause.RESAMPLED if at in asked_for else Cause.HISTORY_CUT), ""
    if at == leaf.num_messages:
        return Cause.HISTORY_EDITED, "another conversation has gone on from here"
    if at in asked_for:
        return _about_reply(asked_for[at], messages[at], match.why)
    if at + 1 in asked_for and has_grown(leaf.asked[at], messages[at]):
        return _about_reply(asked_for[at + 1], messages[at], match.why)
    return Cause.HISTORY_EDITED, _what_differs(leaf.asked[at], messages[at])


def _about_reply(exchange: Exchange, other: Message, why: str) -> tuple[Cause, str]:
    if exchange.was_lost or not exchange.is_delivered:
        return Cause.REPLY_ABORTED, why
    if other["role"] == "assistant":
        return Cause.REPLY_EDITED, why
    return Cause.REPLY_DROPPED, ""


def _what_differs(held: Message, other: Message) -> str:
    for key in ("role", "content", "tool_call_id", "tool_calls", "reasoning_content"):
        if held.get(key) != other.get(key):
            return one_line(f"its {key} {changed(_text(held.get(key)), _text(other.get(key)))}")
    return ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else encode(value)


def _names(offer: Request | Exchange) -> str:
    return "[" + ", ".join(tool["function"]["name"] for tool in offer.tools) + "]"
