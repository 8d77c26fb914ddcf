"""Turns of the policy that came back in pieces, put together.

    sampled                  comes back as
    text, call a, call b     text | call a | call b | result a | result b
                             text, call a | result a | call b | result b

Harnesses do so that keep a message per block or per call. Owns finding the pieces: by the ids of their
calls, which say of which reply they are, and by the text in front of them. Invariant: pieces that do not
make the whole reply stay as they are. What a turn says is not looked at beyond that; see `echo.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lego_harness.proxy.conversation import Message, order_tool_results
from lego_harness.proxy.exchange import Exchange

JOIN = "\n"


def in_whole_turns(messages: Sequence[Message], by_call: Mapping[str, Exchange]) -> list[Message] | None:
    """The messages with such turns in one piece, results behind it; None where there are none."""
    pieces: dict[Exchange, list[int]] = {}
    for index, message in enumerate(messages):
        for call in message.get("tool_calls", [])[:1]:
            if call["id"] in by_call:
                pieces.setdefault(by_call[call["id"]], []).append(index)
    turns: dict[int, Message | None] = {}  # by the index of a piece: the whole in place of the first
    for exchange, places in pieces.items():
        places = [*_in_front(messages, places[0], exchange.reply), *places]
        turn = _joined([messages[index] for index in places], exchange.reply) if len(places) > 1 else None
        if turn is not None and _ids(turn) == _ids(exchange.reply):
            turns |= {**dict.fromkeys(places), places[0]: turn}
    told = (turns.get(index, message) for index, message in enumerate(messages))
    return order_tool_results([message for message in told if message is not None]) if turns else None


def _in_front(messages: Sequence[Message], first: int, reply: Message) -> Sequence[int]:
    """Indices of the messages before the first call that are text or thoughts of the same reply."""
    start, index = first, first
    rest = _letters(reply["content"]) if first and _is_text(messages[first - 1]) else ""
    while rest.endswith(said := _letters(messages[index]["content"])):
        rest = rest.removesuffix(said)
        start = start if rest else index
        if not index or not _is_text(messages[index - 1]):
            break
        index -= 1
    return range(start, first)


def _joined(pieces: Sequence[Message], reply: Message) -> Message:
    """One turn of pieces; its text as it was sampled where they differ in blanks between them only."""
    content = JOIN.join(filter(None, (piece["content"] for piece in pieces)))
    is_same = _letters(content) == _letters(reply["content"])
    turn: Message = {"role": "assistant", "content": reply["content"] if is_same else content}
    thoughts = dict.fromkeys(piece.get("reasoning_content", "") for piece in pieces)  # some repeat it
    if thought := JOIN.join(filter(None, thoughts)):
        turn["reasoning_content"] = thought
    turn["tool_calls"] = [call for piece in pieces for call in piece.get("tool_calls", [])]
    return turn


def _is_text(message: Message) -> bool:
    return message["role"] == "assistant" and not _ids(message)


def _letters(text: str) -> str:
    return "".join(text.split())


def _ids(turn: Message) -> list[str]:
    return [call["id"] for call in turn.get("tool_calls", [])]
