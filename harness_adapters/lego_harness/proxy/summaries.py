"""Is a history begun anew around a text of the policy's, and around which?

    asked for      in the conversation itself, or beside all that use tools
    found again    in a user's or a system message, by its longest line however that is wrapped, or as a turn
                   of the assistant that answers a new question

Owns this table; told from structure, never from a vendor's wording.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from lego_harness.proxy.conversation import Message, Request
from lego_harness.proxy.exchange import Exchange
from lego_harness.proxy.locate import Match

MIN_QUOTE = 12
"""Characters; shorter lines may recur by chance."""
_TAG = re.compile(r"</?[a-zA-Z_]+>")


def summary(match: Match, leaf: Exchange, request: Request, exchanges: Sequence[Exchange]) -> Exchange | None:
    """The latest text-only reply that the history of a request is begun anew around; `leaf` ends the history
    that it was compared with."""
    exchanges = [exchange for exchange in exchanges if _may_sum_up(exchange, request)]
    if _is_beside(request, exchanges):
        return None
    held = {(message["role"], message["content"]) for message in leaf.asked}
    told = [(message, _as_line(message["content"])) for message in request.messages]
    new = [(m, text) for m, text in told[match.num_same :] if (m["role"], m["content"]) not in held]
    known = {longest_line(exchange.reply) for exchange in exchanges if exchange.is_quoted}
    for exchange in reversed(exchanges):
        line = longest_line(exchange.reply)
        if len(line) < MIN_QUOTE or _is_still_asked(exchange, request):
            continue
        # A policy may sum up in the same words each time; then what quotes them is not new.
        messages = told if line in known and not exchange.is_quoted else new
        is_behind_new = exchange.index > leaf.index or _answers_anew(exchange, request, held)
        may_be_turn = is_behind_new and not exchange.is_quoted
        if any(_is_around(exchange.reply, line, *one, may_be_turn) for one in messages):
            return exchange
    return None


def _is_beside(request: Request, exchanges: Sequence[Exchange]) -> bool:
    """Whether it is a question beside the conversations, which may well show what was said before: it offers no
    tools where they do, or gives other instructions where none does."""
    first = request.messages[0]
    if request.tools or any(exchange.tools for exchange in exchanges):
        return not request.tools
    return first["role"] == "system" and all(exchange.asked[0] != first for exchange in exchanges)


def _is_still_asked(exchange: Exchange, request: Request) -> bool:
    """Whether all that the reply answered is there as it was: what quotes it may be a complaint about it."""
    return request.messages[: len(exchange.asked)] == exchange.asked


def _answers_anew(exchange: Exchange, request: Request, held: set[tuple[str, str]]) -> bool:
    """Whether the reply stands nearer to the beginning than it did, behind a question that is new."""
    said = exchange.reply["content"].strip()
    return any(
        one["role"] == "user" and ("user", one["content"]) not in held and other["content"].strip() == said
        for one, other in pairwise(request.messages[: len(exchange.asked)])
    )


def _is_around(reply: Message, line: str, message: Message, text: str, may_be_turn: bool) -> bool:
    """Whether a message, its text as one line, holds the line, or is the reply where that was no turn of the
    history before."""
    if message["role"] == "assistant":
        return may_be_turn and message["content"].strip() == reply["content"].strip()
    return message["role"] in ("user", "system") and line in text


def longest_line(reply: Message) -> str:
    """What a quotation of the reply would hold; empty for one that calls tools."""
    if reply.get("tool_calls"):
        return ""
    return max(map(_as_line, _TAG.split(reply["content"].replace("\n", "<n>"))), key=len)


def _as_line(text: str) -> str:
    """The text however its lines are wrapped."""
    return " ".join(text.split())


def _may_sum_up(exchange: Exchange, request: Request) -> bool:
    """Whether it is of the request's conversation, or was asked for beside all conversations that use tools."""
    is_beside = bool(request.tools) and not exchange.tools and not exchange.caller.is_sub_agent
    return is_beside or exchange.caller.thread == request.caller.thread
