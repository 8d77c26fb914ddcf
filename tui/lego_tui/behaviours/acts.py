"""A rollout's messages as calls: what each did, whether it failed, whether it could be read at all.

Owns the reading of tool calls and of what came back, for every harness. Total: whatever a message holds, it is one
call of some kind or none. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from lego_tui.behaviours.shell import KINDS, Act, acts_of, patched_paths
from lego_tui.behaviours.tools import Tool, tool_of

_COMMAND_KEYS = ("command", "cmd", "script", "input")
_PATH_KEYS = ("file_path", "filePath", "path", "file", "notebook_path")
_UNREADABLE_KEYS = ("__unparsedToolInput", "_openhands_malformed_tool_call")
_SEEN = 2000
"""Characters of a result, at each end, that say how a call went."""
_UNPARSED = re.compile(
    r"no tool calls? (?:found|could be parsed)|could not be parsed|InputValidationError|invalid json|malformed"
    r"|unknown (?:tool|argument)|failed to parse function arguments|unsupported call|Error validating tool",
    re.I,
)
_FAILED = re.compile(
    r"\"?(?:return_?code|exit_code|exit code)\"?\s*[:=]?\s*-?[1-9]|exited with code -?[1-9]|<tool_use_error>"
    r"|^Error\b|^ERROR:|Traceback \(most recent call last\)",
    re.M | re.I,
)
_OPEN = "<tool_call>"
"""What stays in the text of a reply whose call could not be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One tool call, or a reply that should have held one."""

    turn: int
    """Number of the assistant's message, from 0."""
    tool: str
    command: str
    """Its telling argument; all arguments as JSON where none is."""
    acts: tuple[Act, ...]
    """Empty where it could not be read."""
    is_malformed: bool
    is_failed: bool
    """It ran and came back with an error."""

    @property
    def kind(self) -> str:
        """The most telling of its acts; `malformed` where there is none."""
        kinds = {act.kind for act in self.acts}
        return next((kind for kind in KINDS if kind in kinds), "malformed")


def calls_of(messages: Sequence[Mapping[str, Any]], harness: str = "") -> list[Call]:
    """Every call of a rollout in order."""
    results = _results(messages)
    found: list[Call] = []
    turn = -1
    for place, message in enumerate(messages):
        if message.get("role") != "assistant":
            continue
        turn += 1
        raw = message.get("tool_calls")
        listed = cast(list[Any], raw) if isinstance(raw, list) else []
        for number, call in enumerate(listed):
            found.append(_call(call, turn, harness, _result_of(call, number, place, messages, results)))
        if not listed and _is_unread(message, messages[place + 1 : place + 2]):
            said = text_of(message.get("content"))
            found.append(
                Call(turn=turn, tool="", command=said[:200], acts=(), is_malformed=True, is_failed=False)
            )
    return found


def read_call(call: Any) -> tuple[str, dict[str, Any] | str]:
    """Name and arguments of a tool call; arguments that are no object stay text."""
    function: Any = cast(dict[str, Any], call).get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return "?", text_of(call)
    table = cast(dict[str, Any], function)
    name, arguments = str(table.get("name", "?")), table.get("arguments")
    if isinstance(arguments, str):
        try:
            parsed: Any = json.loads(arguments)
        except (ValueError, RecursionError):
            return name, arguments
        return name, cast(dict[str, Any], parsed) if isinstance(parsed, dict) else arguments
    return name, cast(dict[str, Any], arguments) if isinstance(arguments, dict) else text_of(arguments)


def telling(arguments: dict[str, Any] | str) -> str:
    """The argument a person wants to see."""
    if isinstance(arguments, str):
        return arguments
    for key in _COMMAND_KEYS:
        value = arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return _joined(cast(list[Any], value))
    return json.dumps(arguments, ensure_ascii=False, default=str)


def text_of(value: Any) -> str:
    """Content as text: strings as they are, parts one after the other."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = cast(list[Any], value)
        return "\n".join(
            str(cast(dict[str, Any], p).get("text", "")) if isinstance(p, dict) else str(p) for p in parts
        )
    return "" if value is None else json.dumps(value, default=str, ensure_ascii=False)


def _joined(words: list[Any]) -> str:
    """`["bash", "-lc", "make test"]` is its last word, any other list its words."""
    if len(words) == 3 and str(words[1]).startswith("-") and str(words[1]).endswith("c"):
        return str(words[2])
    return " ".join(map(str, words))


def _call(call: Any, turn: int, harness: str, result: str) -> Call:
    name, arguments = read_call(call)
    tool = tool_of(harness, name)
    is_unreadable = isinstance(arguments, dict) and any(key in arguments for key in _UNREADABLE_KEYS)
    malformed = tool is Tool.MALFORMED or is_unreadable or bool(_UNPARSED.search(result[:300]))
    acts = () if malformed else _acts(tool, arguments)
    return Call(
        turn=turn,
        tool=name,
        command=telling(arguments),
        acts=acts,
        is_malformed=malformed,
        is_failed=not malformed and bool(_FAILED.search(result)),
    )


def _acts(tool: Tool, arguments: dict[str, Any] | str) -> tuple[Act, ...]:
    if tool is Tool.SHELL:
        return acts_of(telling(arguments))
    paths = _paths(arguments)
    if tool is Tool.EDITOR:
        verb = arguments.get("command") if isinstance(arguments, dict) else ""
        return (Act(kind="read" if verb == "view" else "edit", paths=paths),)
    kinds = {Tool.READ: "read", Tool.EDIT: "edit", Tool.EXPLORE: "explore", Tool.FINISH: "finish"}
    kind = kinds.get(tool, "run")
    return (Act(kind=kind, paths=paths if kind in ("read", "edit") else ()),)


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
        str(message["tool_call_id"]): _ends(message)
        for message in messages
        if message.get("role") == "tool" and message.get("tool_call_id")
    }


def _result_of(
    call: Any, number: int, place: int, messages: Sequence[Mapping[str, Any]], results: dict[str, str]
) -> str:
    """By id; by position where a harness gives none."""
    known = cast(dict[str, Any], call).get("id") if isinstance(call, dict) else None
    if known is not None and str(known) in results:
        return results[str(known)]
    following = messages[place + 1 + number : place + 2 + number]
    return _ends(following[0]) if following and following[0].get("role") != "assistant" else ""


def _ends(message: Mapping[str, Any]) -> str:
    text = text_of(message.get("content"))
    text = text if len(text) <= 2 * _SEEN else f"{text[:_SEEN]}\n{text[-_SEEN:]}"
    return f"Error: {text}" if message.get("is_error") is True else text


def _is_unread(message: Mapping[str, Any], following: Sequence[Mapping[str, Any]]) -> bool:
    """True for a reply that should have been a call."""
    if _OPEN in text_of(message.get("content"))[:_SEEN]:
        return True
    answered = bool(following) and following[0].get("role") != "assistant"
    return answered and bool(_UNPARSED.search(text_of(following[0].get("content"))[:_SEEN]))
