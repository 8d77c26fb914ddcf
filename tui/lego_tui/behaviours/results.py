"""How a call went, judged by its result: each harness says it in its own words.

Owns those words. An exit code counts if the harness reports one; text that a command merely printed counts only
if it does not. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

SEEN = 2000
"""How many characters of a result, at each end, are read to see how a call went."""
MARK = "\x00Error: "
"""Before a result that its message marks as an error."""


class Run(StrEnum):
    """By what a call was made."""

    SHELL = "shell"
    LOOKING = "looking"
    """By a shell that only looked."""
    TOOL = "tool"


_CODE: dict[str, re.Pattern[str]] = {
    "mini-swe-agent": re.compile(r"\A\s*\{\s*\"returncode\":\s*(-?\d+)"),
    "claude-code": re.compile(r"\A(?:\x00?Error: )?Exit code (-?\d+)"),
    "codex": re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.M),
    "openhands": re.compile(r"\[Command finished with exit code (-?\d+)\]\s*\Z"),
}
_ANY_CODE = re.compile(
    r"\"(?:return_?code|exit_code)\":\s*(-?\d+)|^(?:process |command )?(?:exited with code|exit code:?) (-?\d+)",
    re.M | re.I,
)
"""Of a harness that is not known."""
_ERROR = re.compile(
    r"\A(?:\x00|Error\b|ERROR:|<tool_use_error>|\[?An error occurred"
    r"|(?:Could not|Cannot|Found multiple matches|No changes to apply|You must)\b|(?:File|\w+ \"[^\"\n]*\") not found\b"
    r"|\w+ (?:verification failed|failed:)|\w+ is unavailable\b)",
    re.I,
)
"""A tool's own words, at the beginning."""
_SHELL_ERROR = re.compile(
    r"\A(?:\x00|<tool_use_error>|\[An error occurred|(?:apply_patch verification|exec_command) failed)"
)
"""Those of a shell that tells exit codes: other words may be what its commands printed."""
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
    r"\A\s*\x00?(?:Error: )*(?:<tool_use_error>)?\s*(?:Error: )*(?:InputValidationError|No such tool|unknown tool|unsupported call"
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
_SILENT: dict[str, re.Pattern[str]] = {
    "mini-swe-agent": re.compile(r"\"output\":\s*\"\s*\"\s*\}?\s*\Z"),
    "claude-code": re.compile(r"\A(?:\(Bash completed with no output\)|(?:\x00?Error: )?Exit code \d+)\s*\Z"),
    "codex": re.compile(r"^Process exited with code \d+\n(?:.*\n)?Output:\s*\Z", re.M),
    "openhands": re.compile(r"\A\s*\[The command completed with exit code"),
    "opencode": re.compile(r"\A\(no output\)\s*\Z"),
}
"""What a harness says where nothing was printed."""
_REPORT = re.compile(
    r"\b\d+ (?:passed|failed|skipped|errors?)\b.* in \d[\d.]*s|^Ran \d+ tests? in |^test result: ", re.M
)
"""How a test runner ends."""
_OF_TESTS = re.compile(
    r"^(?:OK|PASS|FAIL|(?:not )?ok)\b|no tests ran|\b\d+ (?:passed|passing|failing|tests?|examples?)\b|\bTests(?: run)?:",
    re.M,
)
_NO_PROGRAM = re.compile(r"^(?:\S+: ){1,2}(?:line \d+: )?\S+: (?:command )?not found$", re.M)
_NO_RUNNER = re.compile(
    r"No module named '?(?:pytest|tox|nox|nose2?)\b|No rule to make target|Missing script|Could not read package\.json"
)


def ends(message: Mapping[str, Any], text: str) -> str:
    """A result's text, both its ends; an error is marked as one."""
    kept = text if len(text) <= 2 * SEEN else f"{text[:SEEN]}\n{text[-SEEN:]}"
    return f"{MARK}{kept}" if message.get("is_error") is True else kept


def is_unread(result: str) -> bool:
    """Whether the harness could not read the call."""
    return _UNREAD.match(result[:SEEN]) is not None


def is_failed(harness: str, result: str, run: Run) -> bool:
    """Whether the call came back with an error."""
    if run is not Run.TOOL and not tells_code(harness):
        printed = _ERROR.match(result) or _COMPLAINT.search(result)
        return bool(printed or (run is Run.SHELL and _PRINTED.search(result)))
    of_shell = run is not Run.TOOL and harness in _CODE
    return bool((_SHELL_ERROR if of_shell else _ERROR).match(result)) or _code(harness, result) not in (
        None,
        0,
    )


def tells_code(harness: str) -> bool:
    """Whether a harness tells exit codes."""
    return harness != "opencode"


def is_silent(harness: str, result: str) -> bool:
    """Whether nothing was printed at all."""
    return harness in _SILENT and _SILENT[harness].search(result) is not None


def is_report(text: str) -> bool:
    """Whether it holds a test runner's last words."""
    return _REPORT.search(text) is not None


def lacks_runner(text: str) -> bool:
    """Whether it says that a test runner is not there, and nothing of tests."""
    return _NO_RUNNER.search(text) is not None and not (_REPORT.search(text) or _OF_TESTS.search(text))


def has_words_of_tests(text: str) -> bool:
    """Whether it holds anything that a test runner says."""
    return any(pattern.search(text) for pattern in (_REPORT, _OF_TESTS, _PRINTED))


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
