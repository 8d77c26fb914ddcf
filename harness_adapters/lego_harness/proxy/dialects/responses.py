"""OpenAI Responses → canonical conversation.

Owns the wire shapes of a `/v1/responses` request. Consecutive items of the assistant (reasoning,
message, calls) are one turn. Nothing is stored, so whatever refers to something stored is refused,
as is anything but text. Tools are `responses_tools.py`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import TypeAdapter

from lego_harness.proxy.conversation import Message, Reply, Request, ToolCall, order_tool_results
from lego_harness.proxy.dialects import chat_reply, responses_reply
from lego_harness.proxy.dialects.base import (
    JOIN,
    MAX_NAME,
    Head,
    Wire,
    asked_for,
    conversation,
    field_of,
    read_arguments,
    request_of,
    validated,
    validated_items,
)
from lego_harness.proxy.dialects.folding import Folded, Grammar, Meaning, fold_conversation
from lego_harness.proxy.dialects.responses_tools import canonical_name, fold_tools
from lego_harness.proxy.refusal import Refusal

ASKED = (
    "model", "temperature", "top_p", "max_output_tokens", "max_tool_calls", "reasoning", "text", "tool_choice",
    "parallel_tool_calls", "truncation", "store", "include", "stream",
)  # fmt: skip
ASSISTANTS = ("reasoning", "function_call", "custom_tool_call")
"""Items of the assistant beside its messages."""
RESULTS = ("function_call_output", "custom_tool_call_output")
COMPACTS = "compaction_trigger"
"""Codex sends it where it takes the provider for OpenAI."""
NO_SUMMARY = (
    "asks the server to summarise, which would not be the policy's own doing; name the provider otherwise than "
    "OpenAI and the harness asks for a summary itself"
)
TEXT_PARTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal")


class Part(Wire):
    type: str
    text: str | None = None
    refusal: str | None = None


class Item(Wire):
    type: str = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | list[Part] | None = None
    summary: list[Part] | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | None = None
    input: str | None = None
    output: str | list[Part] | None = None
    tools: list[Any] | None = None


class ResponsesBody(Head):
    instructions: str | None = None
    previous_response_id: Any = None
    conversation: Any = None
    prompt: Any = None
    background: Any = None


ITEMS = TypeAdapter(list[Item])
STORED = ("previous_response_id", "conversation", "prompt", "background")


class ResponsesDialect:
    """See `Dialect`."""

    name = "responses"
    grows = "input"

    def fold(self, body: dict[str, Any], earlier: Folded | None = None) -> Request:
        wire = validated(ResponsesBody, body)
        for name in STORED:
            if getattr(wire, name):
                raise Refusal(f"{name}: nothing is stored here; send the whole conversation as `input`")
        folded = fold_conversation(
            GRAMMAR, _said(body), tools=body.get("tools"), system=body.get("instructions"), earlier=earlier
        )
        return request_of(folded, wire, dialect=self.name, asked=asked_for(body, ASKED))

    def unfold(self, reply: Reply) -> dict[str, Any]:
        return responses_reply.whole(reply)

    def events(self, reply: Reply, *, include_usage: bool) -> Iterator[bytes]:
        return responses_reply.events(reply)

    def keep_alive(self) -> bytes:
        return b": keep-alive\n\n"

    def error(self, refusal: Refusal) -> dict[str, Any]:
        return chat_reply.error(refusal)

    def error_event(self, refusal: Refusal) -> bytes:
        return responses_reply.failure(refusal)


def _said(body: dict[str, Any]) -> list[Any]:
    """The items; a text stands for a user's message."""
    text = body.get("input")
    return (
        [{"role": "user", "content": text}] if text and isinstance(text, str) else conversation(body, "input")
    )


def _fold_system(wire: Any) -> list[Message]:
    return [{"role": "system", "content": wire}] if wire else []


def _opens_round(wire: Sequence[Any], index: int) -> bool:
    return _is_assistants(wire[index]) and not (index and _is_assistants(wire[index - 1]))


def _is_assistants(wire: Any) -> bool:
    kind = field_of(wire, "type")
    return kind in ASSISTANTS or (kind in (None, "message") and field_of(wire, "role") == "assistant")


def _fold_round(wire: Sequence[Any], first: int) -> Meaning:
    items = validated_items(ITEMS, wire, "input", first)
    num_said = next((i for i, item in enumerate(wire) if not _is_assistants(item)), len(wire))
    meaning = Meaning(messages=[])
    if num_said:
        meaning.messages.append(_fold_assistant(items[:num_said], first))
    for index, item in enumerate(items[num_said:], first + num_said):
        _fold_item(item, index, meaning)
    meaning.messages[:] = order_tool_results(meaning.messages)
    return meaning


def _fold_assistant(items: Sequence[Item], first: int) -> Message:
    """One turn; its calls keep their order, its texts are joined."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for index, item in enumerate(items, first):
        if item.type == "message":
            texts.append(_text(item.content, index))
        elif item.type == "reasoning":
            thoughts.append(_text(item.content, index) or _text(item.summary, index))
        else:
            calls.append(_fold_call(item, index))
    message: Message = {"role": "assistant", "content": JOIN.join(filter(None, texts))}
    if thought := JOIN.join(filter(None, thoughts)):
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    return message


def _fold_call(item: Item, index: int) -> ToolCall:
    name = canonical_name(_required(item, "name", index), item.namespace)
    call_id = _required(item, "call_id", index)
    if item.type == "custom_tool_call":
        arguments: Any = {"input": _required(item, "input", index)}
    else:
        arguments = read_arguments(_required(item, "arguments", index))
    return {"type": "function", "id": call_id, "function": {"name": name, "arguments": arguments}}


def _fold_item(item: Item, index: int, meaning: Meaning) -> None:
    """An item that is not the assistant's."""
    if item.type == "message":
        role = _required(item, "role", index)
        text = _text(item.content, index)
        meaning.messages.append({"role": "user" if role == "user" else "system", "content": text})
    elif item.type in RESULTS:
        call_id = _required(item, "call_id", index)
        meaning.messages.append(
            {"role": "tool", "content": _text(item.output, index), "tool_call_id": call_id}
        )
    elif item.type == COMPACTS:
        raise Refusal(f"input.{index}: {COMPACTS} {NO_SUMMARY}")
    elif item.type == "additional_tools":
        meaning.offers.extend(fold_tools(item.tools, f"input.{index}.tools"))
    else:
        raise Refusal(
            f"input.{index}: an item of type {item.type[:MAX_NAME]!r}; messages, reasoning, calls of functions "
            "and custom tools with their outputs, and additional_tools are read, and nothing stored is"
        )


def _required(item: Item, name: str, index: int) -> str:
    value = getattr(item, name)
    if value is None:
        raise Refusal(f"input.{index}.{name}: Field required")
    return value


def _text(content: str | Sequence[Part] | None, index: int) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for part in content:
        if part.type not in TEXT_PARTS:
            raise Refusal(
                f"input.{index}: a part of type {part.type[:MAX_NAME]!r}; this model reads text only"
            )
    return JOIN.join(text for part in content if (text := part.text or part.refusal))


GRAMMAR = Grammar(
    opens_round=_opens_round, fold_round=_fold_round, fold_tools=fold_tools, fold_system=_fold_system
)
