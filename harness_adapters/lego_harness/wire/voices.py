"""What a scripted model says in each harness: its tools, and how it ends.

Owns the names of the tools it calls; adding a harness is a line in `VOICES`. Knows no wire.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lego_harness.errors import UsageError
from lego_harness.proxy.conversation import Message

Arguments = dict[str, Any]
Made = tuple[str, Arguments]
"""Name and arguments of a call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Voice:
    """One harness as its model sees it."""

    shell: Callable[[str], Made]
    """The call that runs a command."""
    end: Message
    """The reply that ends the rollout."""
    agent: Callable[[str], Made] | None = None
    """The call that gives a task to a sub-agent; None where there are none."""
    answer: Callable[[str], Message] | None = None
    """A sub-agent's last reply, if it is not text."""
    wait: str = ""
    """A command that outlasts sub-agents, if they run in the background and end with their parent."""
    window: int = 0
    """A window in which a few long outputs force a compaction; 0 where it never compacts."""


def say(text: str = "", *calls: Made, thought: str = "") -> Message:
    """A reply."""
    message: Message = {"role": "assistant", "content": text}
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = [
            {"type": "function", "id": "", "function": {"name": name, "arguments": arguments}}
            for name, arguments in calls
        ]
    return message


def voice_of(harness: str) -> Voice:
    """Raises UsageError for a harness that no script speaks to."""
    if harness not in VOICES:
        raise UsageError(f"no script speaks to harness {harness!r}; expected one of: {', '.join(VOICES)}")
    return VOICES[harness]


def _command(tool: str, key: str = "command") -> Callable[[str], Made]:
    return lambda command: (tool, {key: command})


def _agent(tool: str, kind: str) -> Callable[[str], Made]:
    return lambda prompt: (tool, {"subagent_type": kind, "prompt": prompt, "description": "look around"})


def _finish(text: str) -> Message:
    return say("", ("finish", {"message": text}))


DONE = "The operator is right now."
VOICES = {
    "mini-swe-agent": Voice(
        shell=_command("bash"),
        end=say("", ("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"})),
    ),
    "claude-code": Voice(
        shell=_command("Bash"), end=say(DONE), agent=_agent("Agent", "general-purpose"), window=40_000
    ),
    "opencode": Voice(
        shell=lambda command: ("bash", {"command": command, "description": "Runs a command"}),
        end=say(DONE),
        agent=_agent("task", "general"),
        window=56_000,
    ),
    "openhands": Voice(
        shell=_command("terminal"),
        end=_finish(DONE),
        agent=_agent("task", "general-purpose"),
        answer=_finish,
        window=20_000,
    ),
    "codex": Voice(
        shell=_command("exec_command", "cmd"),
        end=say(DONE),
        agent=lambda prompt: ("multi_agent_v1.spawn_agent", {"message": prompt}),
        wait="sleep 8; echo waited",
        window=24_000,
    ),
}
