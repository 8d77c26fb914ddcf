"""An engine that says what it is told to, in the policy's own format.

Owns the ids of scripted replies. Invariant: what it says is what a policy would have sampled for that
reply, ended by the end-of-turn token unless the reply was cut. A call whose arguments are no object, which
no policy's format has, is said with their text as its only argument. Knows no harness and no wire.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lego_harness.errors import EngineError
from lego_harness.proxy.conversation import Message, ToolCall
from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.render import Renderer
from lego_harness.types import GenerateRequest, Generation

LOGPROB = -1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One reply."""

    message: Message
    is_cut: bool = False
    """It ends at a limit of tokens."""


Director = Callable[[GenerateRequest], Line | Refusal]
"""What is to be said to a call; a Refusal is raised, and reaches the harness as an error."""


class ScriptedEngine:
    """`Engine` whose lines come from a director."""

    def __init__(self, renderer: Renderer, director: Director) -> None:
        self._renderer, self._director = renderer, director
        self.num_sampled = 0
        """Tokens handed out so far."""

    async def generate(self, request: GenerateRequest) -> Generation:
        """The line for this call."""
        line = self._director(request)
        if isinstance(line, Refusal):
            raise line
        ids = np.array(self._ids(line), np.int32)
        if len(ids) > request.sampling.max_tokens:
            raise EngineError(
                f"engine: a scripted reply of {len(ids)} tokens, at most {request.sampling.max_tokens} were asked for"
            )
        self.num_sampled += len(ids)
        return Generation(
            ids=ids,
            logprobs=np.full(len(ids), LOGPROB, np.float32),
            routes=None,
            finish_reason="length" if line.is_cut and len(ids) else "stop",
            policy_version=0,
        )

    def _ids(self, line: Line) -> list[int]:
        ids = self._renderer.encode_assistant(_readable(line.message))
        return ids[:-1] if line.is_cut and len(ids) > 1 else ids


def _readable(message: Message) -> Message:
    """The message with calls that are read as calls."""
    if "tool_calls" not in message:
        return message
    return {**message, "tool_calls": [_readable_call(call) for call in message["tool_calls"]]}


def _readable_call(call: ToolCall) -> ToolCall:
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    if isinstance(arguments, str):
        arguments = {"arguments": arguments}
    return {**call, "function": {"name": name, "arguments": arguments}}
