"""Canonical reply → Anthropic Messages, whole and as a stream.

A thinking block carries a signature, because some clients drop one without; it is a label that
nobody checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lego_harness.proxy.conversation import Reply
from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.strict_json import encode

STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
ERROR_TYPES = {401: "authentication_error", 404: "not_found_error", 413: "request_too_large"}


def whole(reply: Reply) -> dict[str, Any]:
    """The `message` object."""
    return {
        **_head(reply),
        "content": _blocks(reply),
        "stop_reason": STOP_REASONS[reply.finish_reason],
        "usage": _usage(reply.prompt_tokens, reply.completion_tokens),
    }


def events(reply: Reply) -> Iterator[bytes]:
    """The message opens empty, its blocks are filled one by one, and it ends with its reason."""
    yield event("message_start", message={**_head(reply), "usage": _usage(reply.prompt_tokens, 0)})
    for index, block in enumerate(_blocks(reply)):
        yield from _block_events(index, block)
    yield event(
        "message_delta",
        delta={"stop_reason": STOP_REASONS[reply.finish_reason], "stop_sequence": None},
        usage=_usage(reply.prompt_tokens, reply.completion_tokens),
    )
    yield event("message_stop")


def error(refusal: Refusal) -> dict[str, Any]:
    """The body of an error answer."""
    kind = ERROR_TYPES.get(refusal.status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": refusal.message}}


def event(kind: str, **data: Any) -> bytes:
    """One server-sent event."""
    return f"event: {kind}\ndata: {encode({'type': kind, **data})}\n\n".encode()


def _head(reply: Reply) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _blocks(reply: Reply) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if thought := reply.message.get("reasoning_content"):
        blocks.append({"type": "thinking", "thinking": thought, "signature": reply.id})
    if reply.message["content"]:
        blocks.append({"type": "text", "text": reply.message["content"]})
    for call in reply.message.get("tool_calls", []):
        called = call["function"]
        blocks.append(
            {"type": "tool_use", "id": call["id"], "name": called["name"], "input": called["arguments"]}
        )
    return blocks


def _block_events(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    """A block opens empty, is filled and closes."""
    empty, deltas = _split(block)
    yield event("content_block_start", index=index, content_block={**block, **empty})
    for delta in deltas:
        yield event("content_block_delta", index=index, delta=delta)
    yield event("content_block_stop", index=index)


def _split(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "text":
        return {"text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "tool_use":
        return {"input": {}}, [{"type": "input_json_delta", "partial_json": encode(block["input"])}]
    thought = {"type": "thinking_delta", "thinking": block["thinking"]}
    signature = {"type": "signature_delta", "signature": block["signature"]}
    return {"thinking": "", "signature": ""}, [thought, signature]


def _usage(input_tokens: int, output_tokens: int) -> dict[str, int]:
    return {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
