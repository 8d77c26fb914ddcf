"""The order in which a rollout's messages happened, if it held more than one conversation.

A trajectory shows each branch by itself, numbered under `branch`. Here a sub-agent's branch follows the call that
sent it, recognised by the errand that both contain; every other branch continues where the ones before it ended. Total.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from lego_tui.behaviours.messages import read_call, text_of
from lego_tui.behaviours.tools import Tool, tool_of

_SEEN = 4000
"""How many characters of an errand and of an opening are compared."""
_SHORTEST = 4
_MAX_DEPTH = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """How the messages followed each other."""

    places: tuple[int, ...]
    """Indices of the messages, each once."""
    main: tuple[int, ...]
    """The messages of the conversation that was given the task."""


def order_of(messages: Sequence[Mapping[str, Any]], harness: str) -> Order:
    """The order of a rollout's messages."""
    branches: dict[Any, list[int]] = {}
    for place, message in enumerate(messages):
        branches.setdefault(str(message.get("branch", 0)), []).append(place)
    if len(branches) < 2:
        return Order(places=tuple(range(len(messages))), main=tuple(range(len(messages))))
    sent = _sent(messages, branches, harness)
    children: dict[int, list[str]] = {}
    for name, sender in sent.items():
        children.setdefault(sender, []).append(name)
    own = [name for name in branches if name not in sent]
    places = [p for name in own for p in _walk(messages, branches, children, name)]
    return Order(places=tuple(places), main=tuple(p for name in own for p in branches[name]))


def _walk(
    messages: Sequence[Mapping[str, Any]],
    branches: dict[Any, list[int]],
    children: dict[int, list[str]],
    name: str,
) -> Iterator[int]:
    """A branch, with the work of each sub-agent it sent inserted before its next turn."""
    waiting: list[str] = []
    for place in branches[name]:
        if messages[place].get("role") == "assistant":
            for child in waiting:
                yield from _walk(messages, branches, children, child)
            waiting = []
        yield place
        waiting += children.get(place, [])
    for child in waiting:
        yield from _walk(messages, branches, children, child)


def _sent(
    messages: Sequence[Mapping[str, Any]], branches: dict[Any, list[int]], harness: str
) -> dict[str, int]:
    """Branch of a sub-agent → index of the message whose call sent it, which is in an earlier branch."""
    errands: list[tuple[int, str]] = []
    depth: dict[str, int] = {}
    at: dict[int, str] = {}
    found: dict[str, int] = {}
    for name, places in branches.items():
        opening = next((text_of(messages[p].get("content"))[:_SEEN] for p in places if messages[p].get("role") == "user"), "")  # fmt: skip
        sender = next((place for place, errand in errands if errand in opening), None)
        depth[name] = 0 if sender is None else depth[at[sender]] + 1
        if sender is not None and depth[name] < _MAX_DEPTH:
            found[name] = sender
        for place in places:
            texts = list(_errands(messages[place], harness))
            errands += [(place, text) for text in texts]
            at[place] = name
    return found


def _errands(message: Mapping[str, Any], harness: str) -> Iterator[str]:
    """What a message hands to sub-agents."""
    raw = message.get("tool_calls")
    for call in cast(list[Any], raw) if isinstance(raw, list) else []:
        name, arguments = read_call(call)
        if isinstance(arguments, dict) and tool_of(harness, name) is Tool.AGENT:
            texts = (value for value in arguments.values() if isinstance(value, str))
            longest = max(texts, key=len, default="")[:_SEEN]
            if len(longest) >= _SHORTEST:
                yield longest
