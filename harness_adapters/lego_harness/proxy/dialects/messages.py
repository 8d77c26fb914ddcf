"""Anthropic Messages → canonical conversation.

Owns the wire shapes of a `/v1/messages` request. Folds away what carries no meaning for the model:
cache marks, block list or string, the billing line of the system prompt, thinking that only its
author can read; whether a tool result was an error is what its text says. Refused: anything but
text and thinking, and tools that a server runs, whose answers a harness would wait for in vain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import TypeAdapter

from lego_harness.proxy.conversation import Message, Reply, Request, ToolCall, order_tool_results
from lego_harness.proxy.dialects import messages_reply
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
    request_of,
    validated,
    validated_items,
)
from lego_harness.proxy.dialects.folding import Folded, Grammar, Meaning, Offer, fold_conversation
from lego_harness.proxy.refusal import Refusal

ASKED = (
    "model", "temperature", "top_p", "top_k", "max_tokens", "stop_sequences", "thinking", "output_config",
    "output_format", "tool_choice", "stream",
)  # fmt: skip
BILLING = "x-anthropic-billing-header"
UNSAID = ("thinking", "redacted_thinking", "tool_use")
"""Blocks of an assistant's message that are no text."""
REFERENCE = "tool_reference"
"""Names a tool that a search found; every tool on offer is shown anyway, those to be loaded later too."""


class Text(Wire):
    type: str
    text: str | None = None
    tool_name: str | None = None


class Block(Text):
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: FreeJson | None = None
    tool_use_id: str | None = None
    content: str | list[Text] | None = None


class WireMessage(Wire):
    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class OfferedTool(Wire):
    name: str
    description: str | None = None
    input_schema: FreeJson | None = None
    type: str | None = None


class MessagesBody(Head):
    mcp_servers: list[Any] | None = None


MESSAGES = TypeAdapter(list[WireMessage])
TOOLS = TypeAdapter(list[OfferedTool])
SYSTEM = TypeAdapter(list[Text])


class MessagesDialect:
    """See `Dialect`."""

    name = "messages"
    grows = "messages"

    def fold(self, body: dict[str, Any], earlier: Folded | None = None) -> Request:
        wire = validated(MessagesBody, body)
        if wire.mcp_servers:
            raise Refusal("mcp_servers: tools that a server runs are not served; only client tools are")
        said = conversation(body, self.grows)
        folded = fold_conversation(
            GRAMMAR, said, tools=body.get("tools"), system=body.get("system"), earlier=earlier
        )
        return request_of(folded, wire, dialect=self.name, asked=asked_for(body, ASKED))

    def unfold(self, reply: Reply) -> dict[str, Any]:
        return messages_reply.whole(reply)

    def events(self, reply: Reply, *, include_usage: bool) -> Iterator[bytes]:
        return messages_reply.events(reply)

    def keep_alive(self) -> bytes:
        return messages_reply.event("ping")

    def error(self, refusal: Refusal) -> dict[str, Any]:
        return messages_reply.error(refusal)

    def error_event(self, refusal: Refusal) -> bytes:
        return messages_reply.event("error", error=messages_reply.error(refusal)["error"])


def _fold_system(wire: Any) -> list[Message]:
    if wire is None or isinstance(wire, str):
        content = _unbilled(wire or "")
    else:
        blocks = validated_items(SYSTEM, wire, "system")
        content = JOIN.join(filter(None, (_unbilled(_text([block], "system")) for block in blocks)))
    return [{"role": "system", "content": content}] if content else []


def _unbilled(text: str) -> str:
    """The text without a first line that differs from request to request and says nothing."""
    return text.partition("\n")[2].lstrip("\n") if text.startswith(BILLING) else text


def _opens_round(wire: Sequence[Any], index: int) -> bool:
    return field_of(wire[index], "role") == "assistant"


def _fold_round(wire: Sequence[Any], first: int) -> Meaning:
    messages = validated_items(MESSAGES, wire, "messages", first)
    folded = [part for i, message in enumerate(messages, first) for part in _fold_message(message, i)]
    return Meaning(messages=order_tool_results(folded))


def _fold_message(wire: WireMessage, index: int) -> list[Message]:
    """One wire message; tool results become messages of their own, in place."""
    where = f"messages.{index}.content"
    if isinstance(wire.content, str):
        return [{"role": wire.role, "content": wire.content}]
    if wire.role == "assistant":
        return [_fold_assistant(wire.content, where)]
    folded: list[Message] = []
    texts: list[Block] = []
    for block in wire.content:
        if block.type != "tool_result":
            texts.append(block)
            continue
        folded += _texts_as(wire.role, texts, where)
        texts = []
        folded.append(_fold_result(block, where))
    folded += _texts_as(wire.role, texts, where)
    return folded or [{"role": wire.role, "content": ""}]


def _texts_as(role: Literal["user", "system"], blocks: Sequence[Text], where: str) -> list[Message]:
    text = _text(blocks, where)
    return [{"role": role, "content": text}] if text else []


def _fold_result(block: Block, where: str) -> Message:
    if block.tool_use_id is None:
        raise Refusal(f"{where}: a tool_result without tool_use_id")
    return {"role": "tool", "content": _text(block.content, where), "tool_call_id": block.tool_use_id}


def _fold_assistant(blocks: Sequence[Block], where: str) -> Message:
    said = [block for block in blocks if block.type not in UNSAID]
    message: Message = {"role": "assistant", "content": _text(said, where)}
    thoughts = (block.thinking for block in blocks if block.type == "thinking")
    if thought := JOIN.join(thought for thought in thoughts if thought):
        message["reasoning_content"] = thought
    if calls := [_fold_call(block, where) for block in blocks if block.type == "tool_use"]:
        message["tool_calls"] = calls
    return message


def _text(content: str | Sequence[Text] | None, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for block in content:
        if block.type not in ("text", REFERENCE):
            raise Refusal(f"{where}: a block of type {block.type[:MAX_NAME]!r}; this model reads text only")
    return JOIN.join(text for block in content if (text := block.text or block.tool_name))


def _fold_call(block: Block, where: str) -> ToolCall:
    if block.id is None or block.name is None:
        raise Refusal(f"{where}: a tool_use without id or name")
    return {
        "type": "function",
        "id": block.id,
        "function": {"name": block.name, "arguments": block.input or {}},
    }


def _fold_tools(wire: Any) -> list[Offer]:
    return [] if wire is None else [_fold_tool(tool) for tool in validated_items(TOOLS, wire, "tools")]


def _fold_tool(tool: OfferedTool) -> Offer:
    if tool.input_schema is None:
        raise Refusal(
            f"tools: {tool.name[:MAX_NAME]!r} of type {(tool.type or '')[:MAX_NAME]!r} has no input_schema; "
            "only client tools that describe themselves are served, none that a server runs"
        )
    return Offer(tool=function(tool.name, tool.description, tool.input_schema))


GRAMMAR = Grammar(
    opens_round=_opens_round, fold_round=_fold_round, fold_tools=_fold_tools, fold_system=_fold_system
)
