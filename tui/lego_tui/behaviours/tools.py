"""The tools of each harness, by name: one table per harness, read from its own tool list.

Owns only the tables. A harness without one (a program of the user's own) is read with all of them together, and
by what a name suggests.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Tool(StrEnum):
    """How a call of a tool is read."""

    SHELL = "shell"
    """Its command line says."""
    EDITOR = "editor"
    """Its `command` argument says: `view` reads, everything else edits."""
    READ = "read"
    EDIT = "edit"
    WRITE = "write"
    """An edit that writes a file as a whole."""
    EXPLORE = "explore"
    FINISH = "finish"
    AGENT = "agent"
    """Hands something to a sub-agent."""
    OTHER = "other"
    """Plans, thoughts, the web."""
    MALFORMED = "malformed"
    """What a harness makes of a call that it could not read."""


TOOLS: dict[str, dict[str, Tool]] = {
    "mini-swe-agent": {"bash": Tool.SHELL},
    "claude-code": {
        "Bash": Tool.SHELL,
        "BashOutput": Tool.OTHER,
        "Read": Tool.READ,
        "Edit": Tool.EDIT,
        "MultiEdit": Tool.EDIT,
        "Write": Tool.WRITE,
        "NotebookEdit": Tool.EDIT,
        "Glob": Tool.EXPLORE,
        "Grep": Tool.EXPLORE,
        "LS": Tool.EXPLORE,
        "TodoWrite": Tool.OTHER,
        "Task": Tool.AGENT,
        "Agent": Tool.AGENT,
    },
    "opencode": {
        "bash": Tool.SHELL,
        "read": Tool.READ,
        "edit": Tool.EDIT,
        "multiedit": Tool.EDIT,
        "write": Tool.WRITE,
        "patch": Tool.EDIT,
        "apply_patch": Tool.EDIT,
        "glob": Tool.EXPLORE,
        "grep": Tool.EXPLORE,
        "list": Tool.EXPLORE,
        "todowrite": Tool.OTHER,
        "todoread": Tool.OTHER,
        "task": Tool.AGENT,
        "webfetch": Tool.OTHER,
        "invalid": Tool.MALFORMED,
    },
    "codex": {
        "exec_command": Tool.SHELL,
        "write_stdin": Tool.OTHER,
        "shell": Tool.SHELL,
        "local_shell": Tool.SHELL,
        "apply_patch": Tool.EDIT,
        "view_image": Tool.READ,
        "multi_agent_v1.spawn_agent": Tool.AGENT,
        "update_plan": Tool.OTHER,
        "request_user_input": Tool.OTHER,
    },
    "openhands": {
        "terminal": Tool.SHELL,
        "execute_bash": Tool.SHELL,
        "file_editor": Tool.EDITOR,
        "str_replace_editor": Tool.EDITOR,
        "glob": Tool.EXPLORE,
        "grep": Tool.EXPLORE,
        "finish": Tool.FINISH,
        "task": Tool.AGENT,
        "think": Tool.OTHER,
        "task_tracker": Tool.OTHER,
    },
}
ENDS_BY_ANSWER = frozenset({"claude-code", "opencode", "codex"})
"""Harnesses whose agent ends by answering without a call. OpenHands ends so too, but has `finish` for it, and
mini-swe-agent takes such an answer for a malformed call."""
_ANY = {name.lower(): tool for table in TOOLS.values() for name, tool in table.items()}
_SOUNDS = (
    (re.compile(r"agent|delegate", re.I), Tool.AGENT),
    (re.compile(r"bash|shell|exec|terminal|command|run", re.I), Tool.SHELL),
    (re.compile(r"edit|write|replace|patch|create|insert", re.I), Tool.EDIT),
    (re.compile(r"read|view|open|cat", re.I), Tool.READ),
    (re.compile(r"grep|glob|search|find|list|ls", re.I), Tool.EXPLORE),
    (re.compile(r"finish|submit|complete|done", re.I), Tool.FINISH),
)


def tool_of(harness: str, name: str) -> Tool:
    """What the tool `name` of `harness` is."""
    known = TOOLS.get(harness, {}).get(name) or _ANY.get(name.lower())
    if known is not None:
        return known
    return next((tool for pattern, tool in _SOUNDS if pattern.search(name)), Tool.OTHER)
