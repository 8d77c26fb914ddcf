"""Canonical reply → OpenAI Responses, whole and as a stream.

A reply is a list of items: reasoning, a message, calls. A call of a tool that takes text travels as
text when it has the one argument that such a tool takes, and as the function call it is otherwise:
nothing is repaired. A reply that says nothing has an empty message, so that it can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lego_harness.proxy.conversation import CallForm, Reply, ToolCall
from lego_harness.proxy.dialects.chat_reply import wire_arguments
from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.strict_json import encode

Event = tuple[str, dict[str, Any]]


def whole(reply: Reply) -> dict[str, Any]:
    """The `response` object."""
    is_cut = reply.finish_reason == "length"
    status = "incomplete" if is_cut else "completed"
    return {
        **_response(f"resp_{reply.id}", reply.created, reply.model, status),
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "output": _items(reply, status),
        "usage": _usage(reply),
    }


def events(reply: Reply) -> Iterator[bytes]:
    """The response opens empty, its items are filled one by one, and it ends with the whole."""
    final = whole(reply)
    opening = _response(final["id"], reply.created, reply.model, "in_progress")
    return _numbered(
        ("response.created", {"response": opening}),
        ("response.in_progress", {"response": opening}),
        *(event for index, item in enumerate(final["output"]) for event in _item_events(index, item)),
        (f"response.{final['status']}", {"response": final}),
    )


def failure(refusal: Refusal) -> bytes:
    """A response that fails before it says anything; with this code no client asks again."""
    opening = _response("resp_failed", 0, "", "in_progress")
    error = {"code": "invalid_prompt", "message": refusal.message}
    failed = {**opening, "status": "failed", "error": error}
    return b"".join(
        _numbered(("response.created", {"response": opening}), ("response.failed", {"response": failed}))
    )


def _numbered(*told: Event) -> Iterator[bytes]:
    for number, (kind, data) in enumerate(told):
        yield f"event: {kind}\ndata: {encode({'type': kind, 'sequence_number': number, **data})}\n\n".encode()


def _response(response_id: str, created: int, model: str, status: str) -> dict[str, Any]:
    return {
        "id": response_id,
        "object": "response",
        "created_at": created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None,
    }


def _items(reply: Reply, status: str) -> list[dict[str, Any]]:
    content, calls = reply.message["content"], reply.message.get("tool_calls", [])
    items: list[dict[str, Any]] = []
    if thought := reply.message.get("reasoning_content"):
        part: dict[str, Any] = {"type": "reasoning_text", "text": thought}
        items.append(_item("reasoning", f"rs_{reply.id}", summary=[], content=[part], encrypted_content=None))
    if content or not calls:
        part = {"type": "output_text", "text": content, "annotations": [], "logprobs": []}
        items.append(_item("message", f"msg_{reply.id}", role="assistant", content=[part], status=status))
    items += [_call_item(call, reply.call_forms.get(call["function"]["name"])) for call in calls]
    return items


def _call_item(call: ToolCall, form: CallForm | None) -> dict[str, Any]:
    called, call_id = call["function"], call["id"]
    name: dict[str, Any] = {"call_id": call_id, "name": form.name if form else called["name"]}
    if form and form.namespace:
        name["namespace"] = form.namespace
    arguments = called["arguments"]
    if form and form.is_text and isinstance(arguments, dict) and list(arguments) == ["input"]:
        text = arguments["input"]
        if isinstance(text, str):
            return _item("custom_tool_call", f"ctc_{call_id}", **name, input=text, status="completed")
    arguments = wire_arguments(arguments)
    return _item("function_call", f"fc_{call_id}", **name, arguments=arguments, status="completed")


def _item(kind: str, item_id: str, **said: Any) -> dict[str, Any]:
    return {"type": kind, "id": item_id, **said}


def _item_events(index: int, item: dict[str, Any]) -> Iterator[Event]:
    """An item opens empty, is filled and closes."""
    at = {"output_index": index}
    empty, filling = _filling(item, {"item_id": item["id"], **at})
    status = {"status": "in_progress"} if "status" in item else {}
    yield "response.output_item.added", {**at, "item": {**item, **empty, **status}}
    yield from filling
    yield "response.output_item.done", {**at, "item": item}


def _filling(item: dict[str, Any], at: dict[str, Any]) -> tuple[dict[str, Any], list[Event]]:
    """What is missing from an item when it opens, and the events that bring it."""
    if item["type"] == "function_call":
        return {"arguments": ""}, _text_events("response.function_call_arguments", "arguments", item, at)
    if item["type"] == "custom_tool_call":
        return {"input": ""}, _text_events("response.custom_tool_call_input", "input", item, at)
    (part,) = item["content"]
    at = {**at, "content_index": 0}
    more: dict[str, Any] = {"logprobs": []} if part["type"] == "output_text" else {}
    return {"content": []}, [
        ("response.content_part.added", {**at, "part": {**part, "text": ""}}),
        *_text_events(f"response.{part['type']}", "text", part, {**at, **more}),
        ("response.content_part.done", {**at, "part": part}),
    ]


def _text_events(kind: str, name: str, whole: dict[str, Any], at: dict[str, Any]) -> list[Event]:
    delta = [(f"{kind}.delta", {**at, "delta": whole[name]})] if whole[name] else []
    return [*delta, (f"{kind}.done", {**at, name: whole[name]})]


def _usage(reply: Reply) -> dict[str, Any]:
    prompt, completion = reply.prompt_tokens, reply.completion_tokens
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + completion,
    }
