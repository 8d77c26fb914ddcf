"""How far does a request repeat a history that we hold?

Owns the comparison of one request with one line of exchanges. Invariant: a request matches up to its
first message that is not the held one; the policy's own turns may come back in any form that
`echo.py` calls the same. Requests share message objects with those before them (`Folded`), so the
comparison of a long history costs a look per message.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from lego_harness.proxy.conversation import Message, Request
from lego_harness.proxy.echo import difference
from lego_harness.proxy.exchange import Exchange


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """What a request and a line of exchanges have in common."""

    exchange: Exchange | None = None
    """The last exchange that the request repeats with its reply; None when it repeats none, or offers
    other tools (they stand before the first message)."""
    leaf: Exchange | None = None
    """The end of the line that was compared."""
    num_same: int = 0
    """Messages that are the same."""
    why: str = ""
    """What differs first, where that is one of the policy's own turns."""

    @property
    def is_linear(self) -> bool:
        """The request goes on where the line ends."""
        return self.exchange is not None and self.exchange is self.leaf and self.exchange.is_last

    def rank(self) -> tuple[int, int]:
        """Longer is better: in exchanges first, in messages second."""
        return (self.exchange.num_messages if self.exchange else 0, self.num_same)


def follow(leaf: Exchange, request: Request, issued: Container[str]) -> Match:
    """Compare a request with the history that ends in `leaf`; `issued` are the ids of the rollout's calls."""
    num_same, why = _num_same(leaf, request, issued)
    same_tools = request.tools is leaf.tools or request.tools == leaf.tools
    repeated = (x for x in leaf.line() if x.num_messages <= num_same) if same_tools else iter(())
    return Match(exchange=next(repeated, None), leaf=leaf, num_same=num_same, why=why)


def _num_same(leaf: Exchange, request: Request, issued: Container[str]) -> tuple[int, str]:
    asked, messages = leaf.asked, request.messages
    if messages[: len(asked)] != asked:
        return _first_difference(leaf, request, issued)
    if len(messages) == len(asked):
        return len(asked), ""
    why = difference(leaf.reply, messages[len(asked)], leaf.defaults, issued)
    return len(asked) + (not why), why


def _first_difference(leaf: Exchange, request: Request, issued: Container[str]) -> tuple[int, str]:
    replies = {len(x.asked): x.reply for x in leaf.line()}
    for i, (held, other) in enumerate(zip([*leaf.asked, leaf.reply], request.messages, strict=False)):
        if held is other or held == other:
            continue
        turn = replies.get(i, held)  # a turn from before this line began is compared with its echo
        if turn["role"] == "assistant":
            why = difference(turn, other, leaf.defaults, issued)
        else:
            why = "" if _is_same_result(held, other, issued) else "."
        if why:
            return i, why if i in replies else ""
    return min(leaf.num_messages, len(request.messages)), ""


def _is_same_result(held: Message, other: Message, issued: Container[str]) -> bool:
    """Whether a tool's result goes under another id that nobody issued: some are made anew each time."""
    name = other.get("tool_call_id")
    return name is not None and name not in issued and {**held, "tool_call_id": name} == other


def has_grown(last: Message, other: Message) -> bool:
    """The same message with text behind it, as where a harness complains within the last one."""
    same_but_text = other == {**last, "content": other["content"]}
    return same_but_text and other != last and other["content"].startswith(last["content"])
