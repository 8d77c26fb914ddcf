"""Calls that are not as the harness wants them, and ends that are not the usual one.

Some of these a harness repairs, some it refuses, some it takes for an answer: what it does is recorded, not known here.
"""

from __future__ import annotations

import json

from tests.support.behaved.kit import Kit, Reply
from tests.support.real_rollout import ARGUMENT, SUBMIT
from tests.support.scripted_engine import say

_FOREIGN = {
    "mini-swe-agent": ["Bash", "shell", "execute_bash", "str_replace_editor"],
    "claude-code": ["bash", "read_file", "run_terminal_cmd", "mcp__files__read"],
    "opencode": ["Bash", "Read", "execute", "list"],
    "codex": ["shell", "container.exec", "bash", "read_file"],
    "openhands": ["execute_bash", "bash", "str_replace_editor", "Terminal"],
}


def odd_call(kit: Kit) -> Reply:
    """One reply whose call can be read, but is not quite one that the harness knows."""
    tool, _ = kit.shell("")
    name, path = ARGUMENT.get(kit.harness, "command"), f"/workspace/{kit.project.module}"
    foreign = kit.rng.choice(_FOREIGN[kit.harness])
    return say(
        "",
        kit.rng.choice(
            [
                (foreign, {name: "git status", "path": path}),
                (foreign, {name: f"cat {kit.project.other}"}),
                (tool, {name: "git status", "explanation": "What has changed?"}),
                (tool, {name: ["git", "status"]}),
                (tool, {name: "git status", "timeout": "10"}),
                (tool, {name: "git status", "timeout": "soon"}),
                (tool, {name: ""}),
                (tool, {"input": "git status"}),
                _cut_short(kit),
                _lacking(kit, path),
            ]
        ),
    )


def slip(kit: Kit) -> Reply:
    """One reply whose call is not quite one, or whose text only looks like one."""
    tool, _ = kit.shell("")
    name, path = ARGUMENT.get(kit.harness, "command"), f"/workspace/{kit.project.module}"
    foreign = kit.rng.choice(_FOREIGN[kit.harness])
    right = {"name": tool, "arguments": {name: "git status"}}
    return kit.rng.choice(
        [
            say("", (foreign, {name: "git status", "path": path})),
            say("", (foreign, {name: f"cat {kit.project.other}"})),
            say("", (tool, {name: "git status", "explanation": "What has changed?"})),
            say("", (tool, {name: ["git", "status"]})),
            say("", (tool, {name: "git status", "timeout": "10"})),
            say("", (tool, {name: "git status", "timeout": "soon"})),
            say("", (tool, {name: ""})),
            say("", (tool, {"input": "git status"})),
            say(f"<tool_call>\n{json.dumps(right)[:-2]},}}}}\n</tool_call>"),
            say(
                f"<tool_call>\n{json.dumps({**right, 'arguments': json.dumps(right['arguments'])})}\n</tool_call>"
            ),
            say(f"<tool_call>\n{json.dumps({'name': tool, name: 'git status'})}\n</tool_call>"),
            say(f"<tool_call>\n{right!r}\n</tool_call>"),
            say(f"<function={tool}>\n<parameter={name}>git status</parameter>\n</function>"),
            say("", _cut_short(kit)),
            say("", _lacking(kit, path)),
        ]
    )


def _cut_short(kit: Kit) -> tuple[str, dict[str, str]]:
    """Longer than a reply may be."""
    return kit.shell("cat > notes.txt <<'EOF'\n" + "Nothing more is known of this matter.\n" * 250 + "EOF")


def _lacking(kit: Kit, path: str) -> tuple[str, dict[str, str]]:
    """The harness's editor without what it needs."""
    return {
        "claude-code": ("Edit", {"file_path": path, "new_string": kit.project.right}),
        "opencode": ("edit", {"filePath": path, "newString": kit.project.right}),
        "openhands": ("file_editor", {"command": "edit", "path": path}),
    }.get(kit.harness, (kit.shell("")[0], {}))


def last_words(kit: Kit) -> list[Reply]:
    """How it ends; more replies than one where the harness may ask again."""
    usual = [kit.done()] * 3
    if kit.harness == "mini-swe-agent":
        return kit.rng.choice(
            [
                usual,
                usual,
                [kit.both(kit.shell(f"git diff > /tmp/patch.txt; {SUBMIT} && cat /tmp/patch.txt")), *usual],
                [kit.both(kit.shell(f"{SUBMIT} && git diff")), *usual],
                [kit.both(kit.shell(f"git add -A && git diff --cached --stat && {SUBMIT}")), *usual],
                [say("It is repaired now."), *usual],
            ]
        )
    if kit.harness == "openhands":
        return kit.rng.choice([usual, usual, [say("The function is repaired now."), *usual]])
    long = "The bug is fixed.\n\n- changed: " + kit.project.module + "\n- run `pytest -q` to check"
    ask = "I have repaired it. Shall I run the tests as well?"
    return [say(kit.rng.choice(["Done.", long, ask])), *usual]
