"""What the engine is to say to each call of a rollout, and whether that arrives.

    recorded                                      the engine                     the client gets
    a whole reply                                 says it                        it
    an error                                      raises it                      it
    a reply that broke off, then asked again      says what arrived in the end   nothing
    a reply that broke off, and not               says that, and a rest          nothing

Owns this table. A proxy samples a whole reply before it delivers any of it, and a repetition is answered
with the same one, so that what arrived in the end is what had been sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from itertools import islice

from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.routes import DIALECTS
from lego_harness.proxy.strict_json import encode
from lego_harness.wire.recording import Call
from lego_harness.wire.said import Said, dialect_of, error_of, is_success, read_reply
from lego_harness.wire.scripted import Line

LOST = " …"
"""Stands for the rest of a reply that broke off: that there was one is known, and nothing else."""
SOON = 16
"""Calls; a harness gives up after fewer, whatever it asks beside."""
_NAMED_BY = ("session", "agent-id", "thread")
_DIALECTS = {dialect.name: dialect for dialect in DIALECTS.values()}


class Lines:
    """The lines of one rollout."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._lost: set[str] = set()
        """Calls whose reply broke off and has not arrived since."""

    def line(self, call: Call) -> tuple[Line | Refusal, bool]:
        """The engine's line for the next call, and whether its delivery is to be broken off."""
        said = said_to(call)
        is_over = isinstance(said, Said) and said.is_over
        key = _key(call) if self._lost or not is_over else ""
        if isinstance(said, Said) and is_over:
            self._lost.discard(key)
            return Line(message=said.message, is_cut=said.is_cut), False
        if isinstance(said, Refusal) and key not in self._lost:
            return said, False
        self._lost.add(key)
        if (again := self._said_again(call)) is not None:
            return Line(message=again.message, is_cut=again.is_cut), True
        message = said.message if isinstance(said, Said) else Said().message
        message["content"] += LOST
        return Line(message=message), True

    def _said_again(self, call: Call) -> Said | None:
        """The whole reply to a repetition of the call, where one comes soon in its conversation."""
        asked, conversation = _asked(call), _conversation(call)
        later = (one for one in self._calls if one.n > call.n and _conversation(one) == conversation)
        for one in islice(later, SOON):
            said = said_to(one) if dialect_of(one.path) and _asked(one) == asked else None
            if isinstance(said, Said) and said.is_over:
                return said
        return None


def said_to(call: Call) -> Said | Refusal:
    """What a call for a reply was answered with."""
    if call.reply is None:
        return Said(is_over=False)
    if not is_success(call.reply):
        return Refusal(error_of(call.reply) or "an error without a message", _status(call.reply.status))
    said = read_reply(dialect_of(call.path), call.reply)
    return Refusal(said.error, HTTPStatus.SERVICE_UNAVAILABLE) if said.error and said.is_empty else said


def _status(status: int) -> HTTPStatus:
    try:
        return HTTPStatus(status)
    except ValueError:  # 529 is one vendor's own
        return HTTPStatus.SERVICE_UNAVAILABLE


def _key(call: Call) -> str:
    """What makes two calls the same one, asked again."""
    return encode([_conversation(call), _asked(call)])


def _asked(call: Call) -> str:
    """What a call asks of the model: a harness may ask again without a stream, for fewer tokens, or with its
    cache marks elsewhere."""
    try:
        return _DIALECTS[dialect_of(call.path)].fold(call.fields).fingerprint
    except Refusal:
        return encode(call.body)


def _conversation(call: Call) -> list[str]:
    """What tells a conversation from the others of its rollout."""
    named = [(name.lower(), value) for name, value in call.headers]
    return sorted(f"{name}={value}" for name, value in named if any(word in name for word in _NAMED_BY))
