"""Token ids of what a request adds behind the exchange it continues.

Owns the order of the pieces: closing of a cut turn, new messages, turns of the assistant among them,
generation prompt. Invariant: a turn that the policy sampled in this rollout keeps its sampled ids
wherever a harness repeats it; only what nobody sampled is rendered.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from lego_harness.errors import AlignmentError, UsageError
from lego_harness.proxy.conversation import Message, Request
from lego_harness.proxy.exchange import Exchange
from lego_harness.proxy.graph import Attachment, MessageGraph
from lego_harness.proxy.render import Renderer, TooLong
from lego_harness.types import TokenIds


def render_added(renderer: Renderer, graph: MessageGraph, at: Attachment, request: Request) -> TokenIds:
    """The ids behind the attachment, generation prompt included; raises AlignmentError when the
    model's chat template refuses them, TooLong when they cannot fit."""
    ids: list[int] = []
    try:
        for piece in _pieces(renderer, graph, at, request):
            if (so_far := at.num_tokens + len(ids)) > renderer.max_model_len:
                raise TooLong(f"more than {so_far} tokens")
            ids += piece
    except TooLong:
        raise
    except UsageError as error:
        raise AlignmentError(str(error)) from error
    return np.array(ids, np.int32)


def _pieces(renderer: Renderer, graph: MessageGraph, at: Attachment, request: Request) -> Iterator[list[int]]:
    parts = _split(at.added)
    first = parts[0]
    if at.parent is None:
        yield renderer.render_opening(first, request.tools)
    else:
        yield _closing(renderer, at.parent) + renderer.render_delta(first)
    for previous, (turn, *following) in pairwise(parts):
        before = previous[-1] if previous else None
        yield from _turn(renderer, graph.known(turn, before, request), turn)
        yield renderer.render_delta(following)
    yield renderer.generation_prompt


def _split(added: list[Message]) -> list[list[Message]]:
    """The messages before the first assistant turn, then each such turn with those behind it."""
    parts: list[list[Message]] = [[]]
    for message in added:
        if message["role"] == "assistant":
            parts.append([])
        parts[-1].append(message)
    return parts


def _turn(renderer: Renderer, sampled: Exchange | None, turn: Message) -> Iterator[list[int]]:
    if sampled is None:
        yield renderer.render_turn(turn)
    else:
        yield renderer.generation_prompt
        yield sampled.path.ids(sampled.start, sampled.end).tolist()
        yield _closing(renderer, sampled)


def _closing(renderer: Renderer, exchange: Exchange) -> list[int]:
    """The end-of-turn token that a cut turn lacks."""
    return [renderer.vocabulary.end_of_turn] if exchange.is_open else []
