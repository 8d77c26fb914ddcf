"""OpenAI Chat Completions → canonical conversation.

Owns the wire shapes of a `/v1/chat/completions` request. Refused: anything but text, more than one
choice, and calls in the form from before tools, which carry no id. What is asked about sampling is
recorded and not obeyed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import TypeAdapter

from lego_harness.proxy.conversation import Message, Reply, Request, ToolCall, order_tool_results
from lego_harness.proxy.dialects import chat_reply
from lego_harness.proxy.dialects.base import (
    JOIN,
    MAX_NAME,
    FreeJson,
    Head,
    Wire,
    asked_for,
    conversation,
    field_of,
    function,
    read_arguments,
    request_of,
    validated,
    validated_items,
)
from lego_harness.proxy.dialects.folding import Folded, Grammar, Meaning, Offer, fold_conversation
from lego_harness.proxy.refusal import Refusal

ASKED = (
    "model", "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "seed", "stop", "n",
    "frequency_penalty", "presence_penalty", "reasoning_effort", "response_format", "tool_choice",
    "parallel_tool_calls", "stream",
)  # fmt: skip
TEXT_PARTS = ("text", "input_text", "output_text", "refusal")


class Part(Wire):
    type: str
    text: str | None = None
    refusal: str | None = None


class CalledFunction(Wire):
    name: str
    arguments: str | FreeJson = ""


class Call(Wire):
    id: str
    function: CalledFunction


class ChatMessage(Wire):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    function_call: Any = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class OfferedFunction(Wire):
    name: str
    description: str | None = None
    parameters: FreeJson | None = None


class OfferedTool(Wire):
    type: Literal["function"]
    function: OfferedFunction


class StreamOptions(Wire):
    include_usage: bool | None = None


class ChatBody(Head):
    stream_options: StreamOptions | None = None
    n: int | None = None
    functions: Any = None
    function_call: Any = None


MESSAGES = TypeAdapter(list[ChatMessage])
TOOLS = TypeAdapter(list[OfferedTool])


class ChatDialect:
    """See `Dialect`."""

    name = "chat"
    grows = "messages"

    def fold(self, body: dict[str, Any], earlier: Folded | None = None) -> Request:
        wire = validated(ChatBody, body)
        _refuse_what_is_not_served(wire)
        said = conversation(body, self.grows)
        folded = fold_conversation(GRAMMAR, said, tools=body.get("tools"), earlier=earlier)
        include_usage = bool(wire.stream_options and wire.stream_options.include_usage)
        asked = asked_for(body, ASKED)
        return request_of(folded, wire, dialect=self.name, asked=asked, include_usage=include_usage)

    def unfold(self, reply: Reply) -> dict[str, Any]:
        return chat_reply.whole(reply)

    def events(self, reply: Reply, *, include_usage: bool) -> Iterator[bytes]:
        return chat_reply.events(reply, include_usage=include_usage)

    def keep_alive(self) -> bytes:
        return b": keep-alive\n\n"

    def error(self, refusal: Refusal) -> dict[str, Any]:
        return chat_reply.error(refusal)

    def error_event(self, refusal: Refusal) -> bytes:
        return chat_reply.event(chat_reply.error(refusal))


def _refuse_what_is_not_served(wire: ChatBody) -> None:
    if wire.n not in (None, 1):
        raise Refusal(f"n: {wire.n} choices were asked for, only 1 is served")
    if wire.functions or wire.function_call:
        raise Refusal("functions: calls in this form carry no id and cannot be followed; send `tools`")


def _opens_round(wire: Sequence[Any], index: int) -> bool:
    return field_of(wire[index], "role") == "assistant"


def _fold_round(wire: Sequence[Any], first: int) -> Meaning:
    messages = validated_items(MESSAGES, wire, "messages", first)
    folded = [_fold_message(message, i) for i, message in enumerate(messages, first)]
    return Meaning(messages=order_tool_results(folded))


def _fold_message(wire: ChatMessage, index: int) -> Message:
    role = "system" if wire.role == "developer" else wire.role
    message: Message = {"role": role, "content": _text(wire.content, index)}
    if wire.role == "assistant":
        if wire.function_call is not None:
            raise Refusal(f"messages.{index}.function_call: carries no id; send `tool_calls`")
        if reasoning := wire.reasoning_content or wire.reasoning:
            message["reasoning_content"] = reasoning
        if wire.tool_calls:
            message["tool_calls"] = [_fold_call(call) for call in wire.tool_calls]
    if wire.role == "tool":
        if wire.tool_call_id is None:
            raise Refusal(f"messages.{index}.tool_call_id: Field required")
        message["tool_call_id"] = wire.tool_call_id
    return message


def _text(content: str | list[Part] | None, index: int) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for part in content:
        if part.type not in TEXT_PARTS:
            raise Refusal(
                f"messages.{index}.content: a part of type {part.type[:MAX_NAME]!r}; this model reads text only"
            )
    return JOIN.join(text for part in content if (text := part.text or part.refusal))


def _fold_call(call: Call) -> ToolCall:
    arguments = call.function.arguments
    if isinstance(arguments, str):
        arguments = read_arguments(arguments)
    return {
        "type": "function",
        "id": call.id,
        "function": {"name": call.function.name, "arguments": arguments},
    }


def _fold_tools(wire: Any) -> list[Offer]:
    if wire is None:
        return []
    tools = (tool.function for tool in validated_items(TOOLS, wire, "tools"))
    return [Offer(tool=function(tool.name, tool.description, tool.parameters)) for tool in tools]


GRAMMAR = Grammar(opens_round=_opens_round, fold_round=_fold_round, fold_tools=_fold_tools)
