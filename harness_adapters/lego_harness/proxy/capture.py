"""What a closed session saw, made from its message graph.

Owns the record that leaves the proxy. Invariants: every sampled token is in one branch, trained there
or masked for the reason its turn names; a fork is listed with its cause and place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lego_harness.proxy.exchange import Cause, Exchange
from lego_harness.proxy.graph import MessageGraph
from lego_harness.proxy.route_log import RouteBlock
from lego_harness.proxy.side_calls import final_causes, mask_reason, side_calls
from lego_harness.proxy.tokens import TokenPath
from lego_harness.types import Branch, Routes, StopReason, Turn

_NO_FORK = (Cause.LINEAR, Cause.START, Cause.SUB_AGENT, Cause.SIDE_CALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fork:
    """One departure from a conversation as it had been."""

    turn: int
    """The turn that was sampled behind the fork."""
    message: int
    """Index of the first message that is not shared."""
    cause: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture:
    """What a closed session saw."""

    turns: tuple[Turn, ...]
    branches: tuple[Branch, ...]
    """Root-to-leaf paths in the order they began; none when nothing was sampled."""
    messages: tuple[dict[str, Any], ...]
    """The canonical conversations, the policy's turns as they were sampled; see `_shown`."""
    forks: tuple[Fork, ...] = ()
    asked: tuple[dict[str, Any], ...]
    """Per turn, the sampling parameters and model name the harness wanted."""
    stop: StopReason | None
    """The budget that ran out or the failure that ended it; None when the harness stopped by itself."""
    error: str


def make_capture(
    graph: MessageGraph, turns: Sequence[Turn], routes: bytes, *, stop: StopReason | None, error: str
) -> Capture:
    """The record of a session; `turns` are those of the graph's exchanges, in order, and `routes` is
    what its route log held, empty where it was lost."""
    exchanges = graph.exchanges
    classes = side_calls(exchanges)
    causes = final_causes(exchanges, classes)
    named = tuple(
        replace(turn, side_call=side, masked=mask_reason(side), routes=_rows(exchange.routes, routes))
        for turn, exchange, side in zip(turns, exchanges, classes, strict=True)
    )
    branches = [_branch(path, exchanges, named, causes, routes) for path in graph.paths]
    return Capture(
        turns=named,
        branches=tuple(branches),
        messages=_shown(graph.paths, exchanges),
        forks=tuple(_forks(exchanges, causes)),
        asked=tuple(exchange.facts for exchange in exchanges),
        stop=stop,
        error=error,
    )


def _branch(
    path: TokenPath,
    exchanges: Sequence[Exchange],
    turns: Sequence[Turn],
    causes: Sequence[Cause],
    routes: bytes,
) -> Branch:
    on_path = [exchange for exchange in exchanges if exchange.path is path]
    ids, mask, logprobs, versions = path.columns()
    masked = [x for x in on_path if turns[x.index].masked]
    if masked:
        mask, logprobs, versions = mask.copy(), logprobs.copy(), versions.copy()
    for exchange in masked:
        span = slice(exchange.start, exchange.end)
        mask[span], logprobs[span], versions[span] = False, 0, -1
    first = on_path[0]
    return Branch(
        ids=ids,
        mask=mask,
        logprobs=logprobs,
        versions=versions,
        routes=_all_rows(path, routes),
        thread=first.caller.thread,
        parent=first.caller.parent,
        cause=str(causes[first.index]),
        at=first.departure.at,
    )


def _rows(block: RouteBlock | None, routes: bytes) -> Routes | None:
    return block.of(routes) if block and routes else None


def _all_rows(path: TokenPath, routes: bytes) -> Routes | None:
    """`[T, L, K]`, −1 behind the last recorded row; a turn's last token has its row from the next
    turn's prefill."""
    if not path.routes or not routes:
        return None
    rows = [block.of(routes) for block in path.routes]
    missing = np.full((len(path) - path.num_routed, *rows[0].shape[1:]), -1, rows[0].dtype)
    return np.concatenate([*rows, missing])


def _forks(exchanges: Sequence[Exchange], causes: Sequence[Cause]) -> list[Fork]:
    return [
        Fork(turn=x.index, message=x.departure.at, cause=str(cause), detail=x.departure.detail)
        for x, cause in zip(exchanges, causes, strict=True)
        if cause not in _NO_FORK
    ]


def _shown(paths: Sequence[TokenPath], exchanges: Sequence[Exchange]) -> tuple[dict[str, Any], ...]:
    """Each branch's messages from where it departs, with the branch's number under `branch` (none in
    the first) so that a person can tell them apart."""
    shown: list[dict[str, Any]] = []
    for number, path in enumerate(paths):
        on_path = [exchange for exchange in exchanges if exchange.path is path]
        label = {"branch": number} if number else {}
        for exchange in on_path:
            begin = exchange.departure.at or len(exchange.asked) - exchange.num_added
            shown += [{**message, **label} for message in (*exchange.asked[begin:], exchange.reply)]
    return tuple(shown)
