"""The conversation that every program under test is put through, one body after another.

A coding agent reduced to its wire (Chat Completions): system prompt and tools, a task, then a command
per turn with its output. Bodies grow as those of real harnesses do: each begins with the bytes of the
one before. Tool outputs are lines of Python's standard library. Owns the text; sends nothing.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.checkpoint import library

SYSTEM = "You are a coding agent. You work in a repository and have a shell; look before you change anything."
TASK = "One of the tests of this repository fails. Find out why, repair the code and run the tests again."
TOOL_NAMES = ("bash", "read", "write", "edit", "glob", "grep", "todo", "task")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """How large a conversation is; four characters are about a token."""

    num_turns: int
    system_chars: int = 4_000
    """Of the system prompt, and as much again of tool descriptions."""
    reply_chars: int = 250
    """What the policy says and calls in one turn."""
    output_chars: int = 900
    """What a command gives back."""


SHORT = Shape(num_turns=20)
"""About 8,000 tokens."""
LONG = Shape(num_turns=200, system_chars=8_000, reply_chars=1_000, output_chars=2_000)
"""About 150,000 tokens."""


@cache
def _text() -> str:
    return "".join(itertools.islice(library(), 60))


def excerpt(number: int, num_chars: int) -> str:
    """The `number`-th piece of text; another for each number, as far as there is enough."""
    text = _text()
    start = number * 7919 % (len(text) - num_chars)
    return text[start : start + num_chars]


def reply_text(turn: int, shape: Shape) -> tuple[str, str]:
    """What the policy says in a turn, and the command it runs."""
    said = " ".join(excerpt(turn, shape.reply_chars // 2).split())
    return f"Turn {turn}: {said}", f"sed -n {turn},{turn + 40}p " + excerpt(turn + 1, shape.reply_chars // 2)


def tools(shape: Shape) -> list[dict[str, Any]]:
    """Eight tools."""
    schema = {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "What to run."},
            "timeout": {"type": "integer", "description": "Seconds.", "default": 120},
        },
        "required": ["command"],
    }
    size = shape.system_chars // len(TOOL_NAMES)
    return [
        {
            "type": "function",
            "function": {"name": name, "description": excerpt(i, size), "parameters": schema},
        }
        for i, name in enumerate(TOOL_NAMES)
    ]


class Talk:
    """One conversation as its harness holds it; `body` is what it sends next."""

    def __init__(self, shape: Shape, *, stream: bool = False, task: str = "") -> None:
        self.shape, self.turn = shape, 0
        head = {"model": "policy", "stream": stream, "tools": tools(shape)}
        self._pieces = [json.dumps(head)[:-1].encode() + b', "messages": [']
        self._add({"role": "system", "content": f"{SYSTEM}\n{excerpt(99, shape.system_chars)}"})
        self._add({"role": "user", "content": f"{TASK} {task}"})

    @property
    def body(self) -> bytes:
        return b"".join(self._pieces) + b"]}"

    def hear(self, reply: dict[str, Any]) -> None:
        """Keep the reply to `body` and add what its command gives back."""
        message = reply["choices"][0]["message"]
        call = message["tool_calls"][0]
        calls = [{key: call[key] for key in ("id", "type", "function")}]
        self._add({"role": "assistant", "content": message["content"], "tool_calls": calls})
        output = excerpt(self.turn + 200, self.shape.output_chars)
        self._add({"role": "tool", "tool_call_id": call["id"], "content": output})
        self.turn += 1

    def _add(self, message: dict[str, Any]) -> None:
        separator = b", " if len(self._pieces) > 1 else b""
        self._pieces.append(separator + json.dumps(message).encode())
