"""The canonical conversation: what every dialect is folded into and unfolded from.

Owns the shapes that the chat template reads. Invariant: two requests that mean the same to a model
have equal canonical forms, whatever dialect, block structure or cache marks they came in. Holds no
wire format and no tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

from lego_harness.proxy.caller import Caller

if TYPE_CHECKING:
    from lego_harness.proxy.dialects.folding import Folded

FinishReason = Literal["stop", "tool_calls", "length"]


class FunctionCall(TypedDict):
    name: str
    arguments: dict[str, Any] | str
    """Text only where another program wrote arguments that are no JSON object."""


class ToolCall(TypedDict):
    type: Literal["function"]
    id: str
    function: FunctionCall


class Message(TypedDict):
    """One turn as the chat template reads it; `content` is always text."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    reasoning_content: NotRequired[str]
    tool_calls: NotRequired[list[ToolCall]]
    tool_call_id: NotRequired[str]


class FunctionSpec(TypedDict):
    name: str
    description: NotRequired[str]
    parameters: NotRequired[dict[str, Any]]


class Tool(TypedDict):
    """A tool on offer, in OpenAI's shape."""

    type: Literal["function"]
    function: FunctionSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class CallForm:
    """How calls of a tool travel on the wire, where that is not as a plain function."""

    name: str
    namespace: str = ""
    """The group of tools it belongs to; empty when to none."""
    is_text: bool = False
    """Its only argument, `input`, is sent as text instead of JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One call of a harness, folded."""

    dialect: str
    messages: list[Message]
    tools: list[Tool]
    stream: bool
    model: str
    """What the harness calls the model; repeated back, never obeyed."""
    asked: dict[str, Any]
    """Sampling parameters the harness wanted; recorded, never obeyed."""
    caller: Caller = field(default_factory=Caller)
    """Which of the rollout's conversations it belongs to."""
    include_usage: bool = True
    """Whether a streamed reply ends with token counts (Chat Completions makes it optional)."""
    call_forms: Mapping[str, CallForm] = field(default_factory=dict[str, CallForm])
    """By canonical name, the tools whose calls travel in a form of their own."""
    fingerprint: str
    """sha256 over dialect, messages and tools, 64 hexadecimal digits."""
    folded: Folded
    """What it was folded from; a later request that repeats it shares its messages, the very objects."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What one engine call meant, ready to be unfolded into a dialect."""

    id: str
    """Hexadecimal; unique in the run."""
    created: int
    """Unix seconds."""
    model: str
    message: Message
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    call_forms: Mapping[str, CallForm] = field(default_factory=dict[str, CallForm])
    """As in the request."""


def order_tool_results(messages: list[Message]) -> list[Message]:
    """Put each run of tool results into the order of the calls it answers, those of no call last.

    Harnesses send parallel results in completion order, and templates show results without ids: a
    model could not tell them apart.
    """
    ordered: list[Message] = []
    rank: dict[str, int] = {}
    for is_result, run in groupby(messages, lambda message: message["role"] == "tool"):
        if is_result:
            ordered += sorted(run, key=lambda result: _rank(result, rank))
            continue
        for message in run:
            if message["role"] == "assistant":
                rank = {call["id"]: i for i, call in enumerate(message.get("tool_calls", []))}
            ordered.append(message)
    return ordered


def _rank(message: Message, rank: dict[str, int]) -> int:
    return rank.get(message.get("tool_call_id", ""), len(rank))
