"""OpenAI Chat Completions ↔ canonical conversation.

Owns the wire shapes of `/v1/chat/completions`. `n` > 1 and anything but text is refused; what is
asked about sampling is recorded and not obeyed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal, cast

from pydantic import Field

from lego_harness.proxy.conversation import (
    FunctionSpec,
    Message,
    Reply,
    Request,
    Tool,
    ToolCall,
    order_tool_results,
)
from lego_harness.proxy.dialects.base import JOIN, Wire, asked_for, compact, validated
from lego_harness.proxy.refusal import Refusal

ASKED = (
    "model", "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "n",
    "frequency_penalty", "presence_penalty", "reasoning_effort", "tool_choice", "parallel_tool_calls", "stream",
)  # fmt: skip
TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
ERROR_TYPES = {401: "authentication_error", 404: "not_found_error"}


class Part(Wire):
    type: str
    text: str | None = None
    refusal: str | None = None


class CalledFunction(Wire):
    name: str
    arguments: str | dict[str, Any] = ""


class Call(Wire):
    id: str
    function: CalledFunction


class ChatMessage(Wire):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class OfferedFunction(Wire):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class OfferedTool(Wire):
    type: Literal["function"]
    function: OfferedFunction


class StreamOptions(Wire):
    include_usage: bool | None = None


class ChatBody(Wire):
    messages: list[ChatMessage] = Field(min_length=1)
    tools: list[OfferedTool] | None = None
    model: str = ""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None


class ChatDialect:
    """See `Dialect`."""

    name = "chat"

    def fold(self, body: dict[str, Any]) -> Request:
        wire = validated(ChatBody, body)
        if wire.n not in (None, 1):
            raise Refusal(f"n: {wire.n} choices were asked for, only 1 is served")
        return Request(
            dialect=self.name,
            messages=order_tool_results([_fold_message(m, i) for i, m in enumerate(wire.messages)]),
            tools=[_fold_tool(tool) for tool in wire.tools or []],
            stream=bool(wire.stream),
            model=wire.model,
            asked=asked_for(body, ASKED),
            include_usage=bool(wire.stream_options and wire.stream_options.include_usage),
        )

    def unfold(self, reply: Reply) -> dict[str, Any]:
        message = {**_wire_text(reply.message), "role": "assistant"}
        if calls := reply.message.get("tool_calls"):
            message["tool_calls"] = [_wire_call(call) for call in calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish_reason}
        return {**_head(reply, "chat.completion"), "choices": [choice], "usage": _usage(reply)}

    def events(self, reply: Reply, *, include_usage: bool) -> Iterator[bytes]:
        head = _head(reply, "chat.completion.chunk")
        for delta in _deltas(reply.message):
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
            yield _event({**head, "choices": [choice]})
        last: dict[str, Any] = {
            "index": 0,
            "delta": {},
            "logprobs": None,
            "finish_reason": reply.finish_reason,
        }
        yield _event({**head, "choices": [last]})
        if include_usage:
            yield _event({**head, "choices": [], "usage": _usage(reply)})
        yield b"data: [DONE]\n\n"

    def keep_alive(self) -> bytes:
        return b": keep-alive\n\n"

    def error(self, refusal: Refusal) -> dict[str, Any]:
        kind = ERROR_TYPES.get(refusal.status, "invalid_request_error")
        return {"error": {"message": refusal.message, "type": kind, "param": None, "code": None}}

    def error_event(self, refusal: Refusal) -> bytes:
        return _event(self.error(refusal))


def _fold_message(wire: ChatMessage, index: int) -> Message:
    role = "system" if wire.role == "developer" else wire.role
    message: Message = {"role": role, "content": _text(wire.content, index)}
    if wire.role == "assistant":
        if reasoning := wire.reasoning_content or wire.reasoning:
            message["reasoning_content"] = reasoning
        if wire.tool_calls:
            message["tool_calls"] = [_fold_call(call) for call in wire.tool_calls]
    if wire.role == "tool":
        message["tool_call_id"] = wire.tool_call_id or ""
    return message


def _text(content: str | list[Part] | None, index: int) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for part in content:
        if part.type not in TEXT_PARTS:
            raise Refusal(
                f"messages.{index}.content: a part of type {part.type!r}; this model reads text only"
            )
    return JOIN.join(text for part in content if (text := part.text or part.refusal))


def _fold_call(call: Call) -> ToolCall:
    arguments = call.function.arguments
    if isinstance(arguments, str):
        arguments = _arguments(arguments)
    return {
        "type": "function",
        "id": call.id,
        "function": {"name": call.function.name, "arguments": arguments},
    }


def _arguments(text: str) -> dict[str, Any] | str:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return cast("dict[str, Any]", value) if isinstance(value, dict) else text


def _fold_tool(tool: OfferedTool) -> Tool:
    function: FunctionSpec = {"name": tool.function.name}
    if tool.function.description is not None:
        function["description"] = tool.function.description
    if tool.function.parameters is not None:
        function["parameters"] = tool.function.parameters
    return {"type": "function", "function": function}


def _wire_text(message: Message) -> dict[str, Any]:
    text: dict[str, Any] = {"content": message["content"]}
    if not message["content"] and message.get("tool_calls"):
        text["content"] = None
    if reasoning := message.get("reasoning_content"):
        text["reasoning_content"] = reasoning
    return text


def _wire_call(call: ToolCall) -> dict[str, Any]:
    function = call["function"]
    arguments = json.dumps(function["arguments"], ensure_ascii=False)
    return {
        "id": call["id"],
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


def _deltas(message: Message) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    if reasoning := message.get("reasoning_content"):
        yield {"reasoning_content": reasoning}
    if message["content"]:
        yield {"content": message["content"]}
    for index, call in enumerate(message.get("tool_calls", [])):
        yield {"tool_calls": [{"index": index, **_wire_call(call)}]}


def _head(reply: Reply, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{reply.id}", "object": kind, "created": reply.created, "model": reply.model}


def _usage(reply: Reply) -> dict[str, int]:
    prompt, completion = reply.prompt_tokens, reply.completion_tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {compact(data)}\n\n".encode()
