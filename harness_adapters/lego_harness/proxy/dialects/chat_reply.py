"""Canonical reply → OpenAI Chat Completions, whole and as a stream.

Reasoning travels as `reasoning_content`, the spelling that clients read most; requests may bring it
back under either. Owns the shape of errors, which Responses shares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lego_harness.proxy.conversation import Message, Reply, ToolCall
from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.strict_json import encode

ERROR_TYPES = {401: "authentication_error", 404: "not_found_error"}


def whole(reply: Reply) -> dict[str, Any]:
    """The `chat.completion` object."""
    message = {**_wire_text(reply.message), "role": "assistant"}
    if calls := reply.message.get("tool_calls"):
        message["tool_calls"] = [_wire_call(call) for call in calls]
    return {
        **_head(reply, "chat.completion"),
        "choices": [_choice(reply.finish_reason, message=message)],
        "usage": _usage(reply),
    }


def events(reply: Reply, *, include_usage: bool) -> Iterator[bytes]:
    """The chunks, the last of which says why it ends."""
    head = _head(reply, "chat.completion.chunk")
    for delta in _deltas(reply.message):
        yield event({**head, "choices": [_choice(None, delta=delta)]})
    yield event({**head, "choices": [_choice(reply.finish_reason, delta={})]})
    if include_usage:
        yield event({**head, "choices": [], "usage": _usage(reply)})
    yield b"data: [DONE]\n\n"


def error(refusal: Refusal) -> dict[str, Any]:
    """The body of an error answer."""
    kind = ERROR_TYPES.get(refusal.status, "invalid_request_error")
    return {"error": {"message": refusal.message, "type": kind, "param": None, "code": None}}


def event(data: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return f"data: {encode(data)}\n\n".encode()


def _choice(finish_reason: str | None, **said: Any) -> dict[str, Any]:
    return {"index": 0, **said, "logprobs": None, "finish_reason": finish_reason}


def _wire_text(message: Message) -> dict[str, Any]:
    text: dict[str, Any] = {"content": message["content"]}
    if not message["content"] and message.get("tool_calls"):
        text["content"] = None
    if reasoning := message.get("reasoning_content"):
        text["reasoning_content"] = reasoning
    return text


def _wire_call(call: ToolCall) -> dict[str, Any]:
    called = call["function"]
    arguments = wire_arguments(called["arguments"])
    return {
        "id": call["id"],
        "type": "function",
        "function": {"name": called["name"], "arguments": arguments},
    }


def wire_arguments(arguments: dict[str, Any] | str) -> str:
    """Arguments as the text that travels."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


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
