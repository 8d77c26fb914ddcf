"""Wire messages → canonical conversation, at the cost of what is new.

A wire list is cut into rounds: an assistant's turn with all that answers it. A round means the same
whatever stands before it, so a round whose wire messages are the very objects of an earlier request
keeps its canonical messages, the very objects again, and its place in the chain of digests.
Invariant: but for identity, `fold_conversation` gives the same with any `earlier` and with none.
What a wire message means is the dialect's to say.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, count, pairwise
from operator import is_, is_not
from typing import Any

from lego_harness.proxy.conversation import CallForm, Message, Tool
from lego_harness.proxy.strict_json import encode


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """A tool on offer."""

    tool: Tool
    form: CallForm | None = None
    """How a call of it travels, where that is not as a plain function."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Meaning:
    """What one round says."""

    messages: list[Message]
    offers: list[Offer] = field(default_factory=list[Offer])
    """Tools that are put on offer inside the conversation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grammar:
    """How a dialect reads its wire; everything here raises Refusal."""

    opens_round: Callable[[Sequence[Any], int], bool]
    """Whether an assistant's turn begins with the wire message at an index; looks at it and at the
    one before it, neither of which was validated."""
    fold_round: Callable[[Sequence[Any], int], Meaning]
    """What the wire messages of one round mean; the first of them has that index."""
    fold_tools: Callable[[Any], list[Offer]]
    fold_system: Callable[[Any], list[Message]] = lambda wire: []


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """Where one assistant turn and its answers end; the first round may lack the turn."""

    end: int = 0
    """Number of wire messages up to there."""
    num_said: int = 0
    """Number of canonical messages up to there."""
    num_offered: int = 0
    """Number of tools put on offer inside the conversation up to there."""
    digest: bytes = b""
    """Over all canonical messages up to there."""


START = Round()


@dataclass(frozen=True, kw_only=True, slots=True)
class System:
    """The system prompt where it has a field of its own."""

    wire: Any
    messages: list[Message]
    digest: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Offered:
    """Everything on offer."""

    wire: Any
    own: list[Offer]
    """What the field for tools offers."""
    offers: list[Offer]
    tools: list[Tool]
    call_forms: Mapping[str, CallForm]
    digest: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Folded:
    """A conversation with what it was folded from, for the next request to build on."""

    wire: list[Any]
    rounds: list[Round]
    said: list[Message]
    """The messages behind the system prompt."""
    inner: list[Offer]
    """Tools put on offer inside the conversation."""
    system: System
    offered: Offered

    @property
    def messages(self) -> list[Message]:
        """The whole conversation."""
        return self.system.messages + self.said

    @property
    def digest(self) -> bytes:
        """Over tools and messages."""
        said = self.rounds[-1].digest if self.rounds else b""
        return hashlib.sha256(self.offered.digest + self.system.digest + said).digest()


def fold_conversation(
    grammar: Grammar, wire: Sequence[Any], *, tools: Any, system: Any = None, earlier: Folded | None = None
) -> Folded:
    """What the wire messages, the tools on offer and the system prompt mean together."""
    rounds = _kept_rounds(grammar, wire, earlier) if earlier else []
    last = rounds[-1] if rounds else START
    said = earlier.said[: last.num_said] if earlier else []
    inner = earlier.inner[: last.num_offered] if earlier else []
    for first, end in _new_rounds(grammar, wire, last.end):
        meaning = grammar.fold_round(wire[first:end], first)
        if earlier and first == last.end:
            _reuse(earlier.said[last.num_said :], meaning.messages)
        said += meaning.messages
        inner += meaning.offers
        before = rounds[-1].digest if rounds else b""
        rounds.append(
            Round(
                end=end,
                num_said=len(said),
                num_offered=len(inner),
                digest=_digest(meaning.messages, before),
            )
        )
    return Folded(
        wire=list(wire),
        rounds=rounds,
        said=said,
        inner=inner,
        system=_system(grammar, system, earlier),
        offered=_offered(grammar, tools, inner, earlier),
    )


def _kept_rounds(grammar: Grammar, wire: Sequence[Any], earlier: Folded) -> list[Round]:
    """The rounds of the earlier conversation that this one has as well, to their ends."""
    changes = compress(count(), map(is_not, wire, earlier.wire))
    shared = next(changes, min(len(wire), len(earlier.wire)))
    num = bisect_right(earlier.rounds, shared, key=lambda one: one.end)
    if num and earlier.rounds[num - 1].end == shared < len(wire) and not grammar.opens_round(wire, shared):
        num -= 1  # it goes on
    return earlier.rounds[:num]


def _new_rounds(grammar: Grammar, wire: Sequence[Any], start: int) -> list[tuple[int, int]]:
    """Where each round from `start` on begins and ends."""
    inner = [i for i in range(start + 1, len(wire)) if grammar.opens_round(wire, i)]
    return list(pairwise([start, *inner, len(wire)])) if start < len(wire) else []


def _reuse(held: list[Message], messages: list[Message]) -> None:
    """Put the held objects in place of the leading messages that are the same."""
    for index, (old, new) in enumerate(zip(held, messages, strict=False)):
        if encode(old) != encode(new):  # stricter than ==, to which 1, 1.0 and True are the same
            break
        messages[index] = old


def _system(grammar: Grammar, wire: Any, earlier: Folded | None) -> System:
    if earlier and earlier.system.wire is wire:
        return earlier.system
    messages = grammar.fold_system(wire)
    return System(wire=wire, messages=messages, digest=_digest(messages, b""))


def _offered(grammar: Grammar, wire: Any, inner: list[Offer], earlier: Folded | None) -> Offered:
    known = earlier.offered if earlier else None
    own = known.own if known and known.wire is wire else grammar.fold_tools(wire)
    offers = own + inner
    if known and len(offers) == len(known.offers) and all(map(is_, offers, known.offers)):
        return known
    tools = [offer.tool for offer in offers]
    forms = {offer.tool["function"]["name"]: offer.form for offer in offers if offer.form}
    digest = _digest(tools, b"")
    if known and known.digest == digest:
        tools = known.tools  # the same, told anew: whoever compares lists may look at the object first
    return Offered(wire=wire, own=own, offers=offers, tools=tools, call_forms=forms, digest=digest)


def _digest(values: Sequence[Any], before: bytes) -> bytes:
    return hashlib.sha256(before + encode(values).encode()).digest()
