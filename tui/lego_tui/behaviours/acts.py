"""A rollout's messages as calls: what each did, whether it failed, whether it could be read at all.

Owns the reading of tool calls and of their results, for every harness. Total: whatever a message contains, it is one
call of some kind or none. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from lego_tui.behaviours.conversations import order_of
from lego_tui.behaviours.messages import read_call, telling, text_of
from lego_tui.behaviours.outcomes import happened
from lego_tui.behaviours.programs import patched_paths
from lego_tui.behaviours.results import SEEN, Run, ends, is_failed, is_unread
from lego_tui.behaviours.shell import acts_of
from lego_tui.behaviours.tools import Tool, tool_of
from lego_tui.behaviours.vocabulary import KINDS, Act, settled

_PATH_KEYS = ("file_path", "filePath", "path", "file", "notebook_path")
_UNREADABLE_KEYS = ("__unparsedToolInput", "_openhands_malformed_tool_call")
_OPEN = "<tool_call>"
"""What stays in the text of a reply whose call could not be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One tool call, or a reply that should have held one."""

    turn: int
    """Number of the assistant's message, from 0."""
    tool: str
    command: str
    """Its telling argument, or all arguments as JSON if there is none."""
    acts: tuple[Act, ...]
    """Empty if it could not be read. A call that failed and had one act did not read, edit or start anything."""
    is_malformed: bool
    """It came to nothing because of how it was written: broken JSON, no such tool, arguments missing or wrong."""
    is_failed: bool
    """It ran and came back with an error."""

    @property
    def kind(self) -> str:
        """The most telling of its acts; `malformed` if there is none."""
        kinds = {act.kind for act in self.acts}
        return next((kind for kind in KINDS if kind in kinds), "malformed")


def calls_of(messages: Sequence[Mapping[str, Any]], harness: str = "") -> list[Call]:
    """Every call of a rollout, in the order they happened."""
    results = _results(messages)
    turns = list(itertools.accumulate((m.get("role") == "assistant" for m in messages), initial=-1))[1:]
    shown_in: dict[str, Any] = {}
    found: list[Call] = []
    for place in order_of(messages, harness).places:
        message = messages[place]
        if message.get("role") != "assistant":
            continue
        raw = message.get("tool_calls")
        listed = cast(list[Any], raw) if isinstance(raw, list) else []
        for number, call in enumerate(listed):
            if not _is_repeated(call, message, shown_in):
                result = _result_of(call, number, place, messages, results)
                found.append(_call(call, turns[place], harness, result))
        if not listed and _is_unread(message, messages[place + 1 : place + 2]):
            said = text_of(message.get("content"))[:200]
            found.append(Call(turn=turns[place], tool="", command=said, acts=(), is_malformed=True, is_failed=False))  # fmt: skip
    return found


def _is_repeated(call: Any, message: Mapping[str, Any], shown_in: dict[str, Any]) -> bool:
    """Whether an earlier branch showed it already: a compacted history keeps its last turns."""
    known = cast(dict[str, Any], call).get("id") if isinstance(call, dict) else None
    branch = str(message.get("branch", 0))
    return bool(known) and shown_in.setdefault(str(known), branch) != branch


def _call(call: Any, turn: int, harness: str, result: str) -> Call:
    name, arguments = read_call(call)
    tool = tool_of(harness, name)
    is_unreadable = isinstance(arguments, dict) and any(key in arguments for key in _UNREADABLE_KEYS)
    malformed = tool is Tool.MALFORMED or is_unreadable or is_unread(result)
    acts = () if malformed else _acts(tool, arguments)
    failed = not malformed and is_failed(harness, result, _run_by(tool, acts))
    return Call(
        turn=turn,
        tool=name,
        command=telling(arguments),
        acts=happened(acts, harness, result, failed),
        is_malformed=malformed,
        is_failed=failed,
    )


def _run_by(tool: Tool, acts: Sequence[Act]) -> Run:
    if tool is not Tool.SHELL:
        return Run.TOOL
    return Run.LOOKING if all(act.kind in ("read", "explore") for act in acts) else Run.SHELL


def _acts(tool: Tool, arguments: dict[str, Any] | str) -> tuple[Act, ...]:
    if tool is Tool.SHELL:
        return acts_of(telling(arguments))
    paths = _paths(arguments)
    if tool is Tool.EDITOR:
        verb = arguments.get("command") if isinstance(arguments, dict) else ""
        act = Act(kind="read" if verb == "view" else "edit", paths=paths, is_whole=verb == "create")
        return (settled(act),)
    kinds = {Tool.READ: "read", Tool.EDIT: "edit", Tool.WRITE: "edit", Tool.EXPLORE: "explore", Tool.FINISH: "finish"}  # fmt: skip
    kind = kinds.get(tool, "run")
    named = paths if kind in ("read", "edit") else ()
    return (settled(Act(kind=kind, paths=named, is_whole=tool is Tool.WRITE)),)


def _paths(arguments: dict[str, Any] | str) -> tuple[str, ...]:
    if isinstance(arguments, str):
        return patched_paths(arguments)
    named = tuple(value for key in _PATH_KEYS if isinstance(value := arguments.get(key), str))
    patches = (
        value for key in ("patch", "patchText", "input") if isinstance(value := arguments.get(key), str)
    )
    return named[:1] or next((found for patch in patches if (found := patched_paths(patch))), ())


def _results(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Tool-call id → what came back, both its ends."""
    return {
        str(message["tool_call_id"]): ends(message, text_of(message.get("content")))
        for message in messages
        if message.get("role") == "tool" and message.get("tool_call_id")
    }


def _result_of(
    call: Any, number: int, place: int, messages: Sequence[Mapping[str, Any]], results: dict[str, str]
) -> str:
    """By id, or by position if a harness gives none."""
    known = cast(dict[str, Any], call).get("id") if isinstance(call, dict) else None
    if known is not None and str(known) in results:
        return results[str(known)]
    following = messages[place + 1 + number : place + 2 + number]
    if not following or following[0].get("role") == "assistant":
        return ""
    return ends(following[0], text_of(following[0].get("content")))


def _is_unread(message: Mapping[str, Any], following: Sequence[Mapping[str, Any]]) -> bool:
    """True for a reply that should have been a call."""
    if _OPEN in text_of(message.get("content"))[:SEEN]:
        return True
    answered = bool(following) and following[0].get("role") != "assistant"
    return answered and is_unread(text_of(following[0].get("content"))[:SEEN])
