"""Anthropic Messages ↔ canonical conversation.

Owns the wire shapes of `/v1/messages`. Folds away what carries no meaning for the model: cache
marks, block list or string, the billing block of the system prompt. Anything but text, thinking and
client tools is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

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
    "model", "temperature", "top_p", "top_k", "max_tokens", "stop_sequences", "thinking", "output_config",
    "tool_choice", "stream",
)  # fmt: skip
BILLING = "x-anthropic-billing-header"
STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
ERROR_TYPES = {401: "authentication_error", 404: "not_found_error", 413: "request_too_large"}


class Block(Wire):
    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    tool_use_id: str | None = None
    content: str | list[Block] | None = None


class WireMessage(Wire):
    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class OfferedTool(Wire):
    name: str
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    type: str | None = None


class MessagesBody(Wire):
    messages: list[WireMessage] = Field(min_length=1)
    system: str | list[Block] | None = None
    tools: list[OfferedTool] | None = None
    model: str = ""
    stream: bool | None = None


class MessagesDialect:
    """See `Dialect`."""

    name = "messages"

    def fold(self, body: dict[str, Any]) -> Request:
        wire = validated(MessagesBody, body)
        messages = [m for i, message in enumerate(wire.messages) for m in _fold_message(message, i)]
        return Request(
            dialect=self.name,
            messages=_fold_system(wire.system) + order_tool_results(messages),
            tools=[_fold_tool(tool) for tool in wire.tools or []],
            stream=bool(wire.stream),
            model=wire.model,
            asked=asked_for(body, ASKED),
        )

    def unfold(self, reply: Reply) -> dict[str, Any]:
        return {
            **_head(reply),
            "content": _wire_blocks(reply.message),
            "stop_reason": STOP_REASONS[reply.finish_reason],
            "usage": _usage(reply.prompt_tokens, reply.completion_tokens),
        }

    def events(self, reply: Reply, *, include_usage: bool) -> Iterator[bytes]:
        yield _event("message_start", message={**_head(reply), "usage": _usage(reply.prompt_tokens, 0)})
        for index, block in enumerate(_wire_blocks(reply.message)):
            yield from _block_events(index, block)
        yield _event(
            "message_delta",
            delta={"stop_reason": STOP_REASONS[reply.finish_reason], "stop_sequence": None},
            usage=_usage(reply.prompt_tokens, reply.completion_tokens),
        )
        yield _event("message_stop")

    def keep_alive(self) -> bytes:
        return _event("ping")

    def error(self, refusal: Refusal) -> dict[str, Any]:
        kind = ERROR_TYPES.get(refusal.status, "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": refusal.message}}

    def error_event(self, refusal: Refusal) -> bytes:
        return _event("error", error=self.error(refusal)["error"])


def _fold_system(system: str | list[Block] | None) -> list[Message]:
    if isinstance(system, list):
        kept = [block for block in system if not (block.text or "").startswith(BILLING)]
        system = _text(kept, "system")
    return [{"role": "system", "content": system}] if system else []


def _fold_message(wire: WireMessage, index: int) -> list[Message]:
    """One wire message; tool results become messages of their own, in place."""
    blocks = [Block(type="text", text=wire.content)] if isinstance(wire.content, str) else wire.content
    where = f"messages.{index}.content"
    if wire.role == "assistant":
        return [_fold_assistant(blocks, where)]
    folded: list[Message] = []
    texts: list[Block] = []
    for block in blocks:
        if block.type != "tool_result":
            texts.append(block)
            continue
        folded += _texts_as(wire.role, texts, where)
        texts = []
        content = _text(block.content, where)
        folded.append({"role": "tool", "content": content, "tool_call_id": block.tool_use_id or ""})
    folded += _texts_as(wire.role, texts, where)
    return folded or [{"role": wire.role, "content": ""}]


def _texts_as(role: Literal["user", "assistant", "system"], blocks: list[Block], where: str) -> list[Message]:
    text = _text(blocks, where)
    return [{"role": role, "content": text}] if text else []


def _fold_assistant(blocks: list[Block], where: str) -> Message:
    said = [block for block in blocks if block.type not in ("thinking", "redacted_thinking", "tool_use")]
    message: Message = {"role": "assistant", "content": _text(said, where)}
    if thought := JOIN.join(
        block.thinking for block in blocks if block.type == "thinking" and block.thinking
    ):
        message["reasoning_content"] = thought
    if calls := [_fold_call(block) for block in blocks if block.type == "tool_use"]:
        message["tool_calls"] = calls
    return message


def _text(content: str | list[Block] | None, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for block in content:
        if block.type != "text":
            raise Refusal(f"{where}: a block of type {block.type!r}; this model reads text only")
    return JOIN.join(block.text for block in content if block.text)


def _fold_call(block: Block) -> ToolCall:
    function = {"name": block.name or "", "arguments": block.input or {}}
    return {"type": "function", "id": block.id or "", "function": function}  # pyright: ignore[reportReturnType]


def _fold_tool(tool: OfferedTool) -> Tool:
    if tool.input_schema is None:
        raise Refusal(
            f"tools: {tool.name!r} of type {tool.type!r} is run by a server; only client tools are served"
        )
    function: FunctionSpec = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = tool.input_schema
    return {"type": "function", "function": function}


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


def _wire_blocks(message: Message) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if thought := message.get("reasoning_content"):
        blocks.append({"type": "thinking", "thinking": thought, "signature": ""})
    if message["content"]:
        blocks.append({"type": "text", "text": message["content"]})
    for call in message.get("tool_calls", []):
        function = call["function"]
        blocks.append(
            {"type": "tool_use", "id": call["id"], "name": function["name"], "input": function["arguments"]}
        )
    return blocks


def _block_events(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    """A block opens empty, is filled by one delta and closes."""
    empty, deltas = _split_block(block)
    yield _event("content_block_start", index=index, content_block={**block, **empty})
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _split_block(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "text":
        return {"text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "tool_use":
        return {"input": {}}, [{"type": "input_json_delta", "partial_json": compact(block["input"])}]
    thought = {"type": "thinking_delta", "thinking": block["thinking"]}
    return {"thinking": ""}, [thought, {"type": "signature_delta", "signature": block["signature"]}]


def _usage(input_tokens: int, output_tokens: int) -> dict[str, int]:
    return {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


def _event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {compact({'type': kind, **data})}\n\n".encode()
