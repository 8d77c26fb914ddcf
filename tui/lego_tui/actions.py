"""What a turn did, read off its tool call: one of a few classes, for strips and counts.

Owns a coarse reading for the eye. A class is decided by the tool's name first and by its command second;
a command line counts as the most telling of its parts, in the order of `_COMMANDS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

KINDS = ("malformed", "failed", "finish", "edit", "test", "read", "explore", "run", "say")
LETTERS = {
    "explore": "e", "read": "r", "edit": "E", "test": "T", "run": "x", "finish": "F", "failed": "!",
    "malformed": "?", "say": "·",
}  # fmt: skip
_TOOLS = (
    (re.compile(r"edit|write|replace|patch|create|insert", re.I), "edit"),
    (re.compile(r"read|view|open|cat", re.I), "read"),
    (re.compile(r"grep|glob|search|find|list|ls", re.I), "explore"),
    (re.compile(r"finish|submit|complete|done", re.I), "finish"),
)
_COMMANDS = (
    (re.compile(r"COMPLETE_TASK_AND_SUBMIT|^\s*(submit|finish)\b"), "finish"),
    (re.compile(r"^\s*(cat|echo|printf)\b[^\n|]*>{1,2}\s*[\w./~$'\"-]|<<\s*['\"]?\w+['\"]?\s*>"), "edit"),
    (re.compile(r"\b(pytest|unittest|tox|nosetests|npm (run )?test|cargo test|go test|make (check|test))\b"), "test"),
    (re.compile(r"\bsed\s+(-\w*i|--in-place)|\bpatch\b|\btee\b|>{1,2}\s*[\w./~$'\"]|\bapply_patch\b|\bmv\b|\brm\b"), "edit"),
    (re.compile(r"^\s*(cat|head|tail|less|sed -n|nl|bat|git (diff|show))\b"), "read"),
    (re.compile(r"^\s*(ls|find|grep|rg|tree|git (log|status)|cd|pwd|wc)\b"), "explore"),
)  # fmt: skip
_FAILED = re.compile(
    r"\"?(returncode|exit_code|exit code)\"?\s*[:=]?\s*[1-9-]|^Error\b|Traceback \(most recent|is_error", re.M
)
_UNPARSED = re.compile(
    r"no tool call|could not be parsed|invalid json|malformed|unknown (tool|argument)", re.I
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """One turn."""

    kind: str
    """One of KINDS."""
    tool: str
    command: str
    """The telling argument; the tool's arguments as JSON where none is."""


def actions(messages: Sequence[Mapping[str, Any]]) -> list[Action]:
    """One action for each message of the assistant, failed ones marked by what came back."""
    found: list[Action] = []
    for i, message in enumerate(messages):
        if message.get("role") == "assistant":
            following = messages[i + 1 : i + 2]
            found.append(_action(message, following[0] if following else {}))
    return found


def _action(message: Mapping[str, Any], following: Mapping[str, Any]) -> Action:
    calls = message.get("tool_calls")
    answer = _text(following.get("content"))[:2000]
    if not isinstance(calls, list) or not calls:
        kind = "malformed" if following.get("role") != "assistant" and _UNPARSED.search(answer) else "say"
        return Action(kind=kind, tool="", command=_text(message.get("content"))[:200])
    name, command = read_call(cast(list[Any], calls)[0])
    kind = _kind(name, command)
    if following.get("role") == "tool":
        if _UNPARSED.search(answer[:300]):
            kind = "malformed"
        elif kind not in ("test", "finish") and _FAILED.search(answer):
            kind = "failed"
    return Action(kind=kind, tool=name, command=command)


def read_call(call: Any) -> tuple[str, str]:
    """Name and telling argument of a tool call."""
    function: Any = cast(dict[str, Any], call).get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return "?", _text(call)
    function = cast(dict[str, Any], function)
    arguments: Any = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return str(function.get("name", "?")), arguments
    if isinstance(arguments, dict):
        table = cast(dict[str, Any], arguments)
        for key in ("command", "cmd", "script", "input"):
            if isinstance(table.get(key), str | list):
                value = table[key]
                return str(function.get("name", "?")), value if isinstance(value, str) else " ".join(
                    map(str, value)
                )
        return str(function.get("name", "?")), json.dumps(table, ensure_ascii=False, default=str)
    return str(function.get("name", "?")), _text(arguments)


def _kind(name: str, command: str) -> str:
    shell = re.search(r"bash|shell|exec|terminal|command|run", name, re.I)
    if not shell:
        for pattern, kind in _TOOLS:
            if pattern.search(name):
                return kind
    for pattern, kind in _COMMANDS:
        if pattern.search(command[:4000]):
            return kind
    return "run"


def _text(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else ""
        if value is None
        else json.dumps(value, default=str, ensure_ascii=False)
    )
