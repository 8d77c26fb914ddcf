"""How a call went, judged by its result: each harness says it in its own words.

Owns those words. An exit code counts if the harness reports one; text that a command merely printed counts only
if it does not. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

SEEN = 2000
"""How many characters of a result, at each end, are read to see how a call went."""
_CODE: dict[str, re.Pattern[str]] = {
    "mini-swe-agent": re.compile(r"\A\s*\{\s*\"returncode\":\s*(-?\d+)"),
    "claude-code": re.compile(r"\A(?:Error: )?Exit code (-?\d+)"),
    "codex": re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.M),
    "openhands": re.compile(r"\[Command finished with exit code (-?\d+)\]\s*\Z"),
}
_ANY_CODE = re.compile(
    r"\"(?:return_?code|exit_code)\":\s*(-?\d+)|^(?:process |command )?(?:exited with code|exit code:?) (-?\d+)",
    re.M | re.I,
)
"""Of a harness that is not known."""
_ERROR = re.compile(
    r"\A(?:Error\b|ERROR:|<tool_use_error>|\[?An error occurred|apply_patch verification failed)", re.I
)
"""A tool's own words, at the beginning."""
_COMPLAINT = re.compile(
    r"^(?:\S+: ){1,3}(?:.*: )?(?:\[Errno \d+\] )?(?:command not found|not found|No such file or directory|Permission denied|Not a directory)$",
    re.M,
)
"""What a program prints when it could not do its work."""
_PRINTED = re.compile(
    r"^Traceback \(most recent call last\)|\b[1-9]\d* (?:failed|errors?)\b|^FAILED\b|^(?:fatal|error): |No module named"
    r"|^make: \*\*\* ",
    re.M,
)
"""What a program prints that ran and failed. A file may say the same, so it counts only if something ran."""
_UNREAD = re.compile(
    r"\A\s*(?:Error: )*(?:<tool_use_error>)?\s*(?:Error: )*(?:InputValidationError|No such tool|unknown tool|unsupported call"
    r"|failed to parse function arguments|Error validating tool|Tool '[^']*' not found|The \S+ tool was called with invalid arguments|The arguments provided to the tool"
    r"|Model tried to call unavailable tool|no tool calls? (?:found|could be parsed)|Tool call error|could not be parsed)",
    re.I,
)
"""What a harness answers to a call that it could not read, or for a tool that does not exist."""
_LISTING = re.compile(r"\A\s*(?:Here's the files and directories|<path>[^<]*</path>\s*<type>directory)")
_REFUSED = re.compile(r"\A\[An error occurred during execution\.\]")
"""OpenHands' tools: nothing was done at all."""
_NOT_STARTED = (126, 127)
"""Exit codes of a shell for a program that may not or cannot be run."""
_NO_PROGRAM = re.compile(r"^(?:\S+: ){1,2}(?:line \d+: )?\S+: (?:command )?not found$", re.M)
_NO_RUNNER = re.compile(r"No module named '?(?:pytest|tox|nox|nose2?)\b")


def ends(message: Mapping[str, Any], text: str) -> str:
    """A result's text, both its ends; an error is marked as one."""
    kept = text if len(text) <= 2 * SEEN else f"{text[:SEEN]}\n{text[-SEEN:]}"
    return f"Error: {kept}" if message.get("is_error") is True else kept


def is_unread(result: str) -> bool:
    """Whether the harness could not read the call."""
    return _UNREAD.match(result[:SEEN]) is not None


def is_failed(harness: str, result: str, has_run: bool) -> bool:
    """Whether the call came back with an error; `has_run` where it did more than look."""
    if _ERROR.match(result):
        return True
    if harness == "opencode":
        return bool(_COMPLAINT.search(result) or (has_run and _PRINTED.search(result)))
    return _code(harness, result) not in (None, 0)


def _code(harness: str, result: str) -> int | None:
    """The exit code that the harness tells."""
    match = _CODE.get(harness, _ANY_CODE).search(result)
    return None if match is None else int(next(code for code in match.groups() if code is not None))


def is_listing(result: str) -> bool:
    """Whether a tool that was asked for a file showed a folder."""
    return _LISTING.match(result) is not None


def is_refused(result: str) -> bool:
    """Whether a failed call was refused before any of its commands ran."""
    return _REFUSED.match(result) is not None


def never_started(harness: str, result: str) -> bool:
    """Whether a call with one command failed because its program was not there."""
    if _NO_RUNNER.search(result):
        return True
    return (
        bool(_NO_PROGRAM.search(result)) if harness == "opencode" else _code(harness, result) in _NOT_STARTED
    )
