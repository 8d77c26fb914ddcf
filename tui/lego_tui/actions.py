"""What a turn did, as one of a few kinds: for strips and counts.

A turn counts as the most telling act of its calls; `lego_tui.behaviours` says what an act is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lego_tui.behaviours.acts import Call, calls_of
from lego_tui.behaviours.messages import text_of
from lego_tui.behaviours.vocabulary import KINDS as ACTS

LETTERS = {
    "explore": "e", "read": "r", "edit": "E", "test": "T", "run": "x", "finish": "F", "failed": "!",
    "malformed": "?", "say": "·",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """One turn."""

    kind: str
    """A key of LETTERS."""
    tool: str
    command: str
    """The telling argument, or the tool's arguments as JSON if there is none."""


def actions(messages: Sequence[Mapping[str, Any]], harness: str = "") -> list[Action]:
    """One action for each message of the assistant."""
    by_turn: dict[int, list[Call]] = {}
    for call in calls_of(messages, harness):
        by_turn.setdefault(call.turn, []).append(call)
    said = [text_of(m.get("content"))[:200] for m in messages if m.get("role") == "assistant"]
    return [_action(by_turn.get(turn, []), text) for turn, text in enumerate(said)]


def _action(calls: Sequence[Call], said: str) -> Action:
    if not calls:
        return Action(kind="say", tool="", command=said)
    call = min(calls, key=lambda call: ACTS.index(call.kind) if call.kind in ACTS else len(ACTS))
    kind = "run" if call.kind == "execute" else call.kind
    if call.is_failed and kind not in ("test", "finish"):
        kind = "failed"
    return Action(kind=kind, tool=call.tool, command=call.command)
