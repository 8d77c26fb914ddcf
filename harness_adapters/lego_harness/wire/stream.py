"""A streamed reply → the JSON reply it would have been.

    chat        `data:` chunks up to `[DONE]`
    messages    events up to `message_stop`
    responses   events up to `response.completed`

Owns how deltas add up. Invariant: never raises; what did not arrive is missing from the JSON, and
`Assembled` says that the stream broke off or became an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from lego_harness.proxy.strict_json import read_object

Event = dict[str, Any]
DONE = "[DONE]"
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(kw_only=True, slots=True)
class Assembled:
    """What a stream brought."""

    whole: dict[str, Any]
    is_over: bool = False
    """The stream came to its end."""
    error: str = ""
    """What went wrong, if the stream itself says so."""
    parts: dict[str, Any] = field(default_factory=dict[str, Any])
    """Parts that grow, by their place."""


def assemble(dialect: str, sse: str) -> Assembled:
    """Add up the events of a reply."""
    start, add = _ASSEMBLERS[dialect]
    assembled = Assembled(whole=start())
    for data in events(sse):
        if data == DONE:
            assembled.is_over = True
        elif (event := read_object(data)) is not None:
            add(assembled, event)
    return assembled


def events(sse: str) -> Iterator[str]:
    """The data of each event that is complete or ends with the text."""
    data: list[str] = []
    for line in [*_LINE_END.split(sse), ""]:  # a JSON text may hold other characters that end lines
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []


def table(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def items(value: Any) -> list[dict[str, Any]]:
    """The objects of the value where it is a list."""
    found = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in found if isinstance(item, dict)]


def text_of(value: Any) -> str:
    """The value where it is text, else none."""
    return value if isinstance(value, str) else ""


def _grow(part: dict[str, Any], key: str, more: Any) -> None:
    part[key] = text_of(part.get(key)) + text_of(more)


# --- chat ------------------------------------------------------------------------------------------


def _chat_start() -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": None}]}


def _add_chat(to: Assembled, event: Event) -> None:
    if "error" in event:
        to.error = _message_of(event["error"])
    to.whole.setdefault("id", event.get("id"))
    for choice in items(event.get("choices"))[:1]:
        kept = to.whole["choices"][0]
        delta, message = table(choice.get("delta")), kept["message"]
        for key in ("content", "reasoning_content", "reasoning"):
            if delta.get(key) is not None:
                _grow(message, key, delta[key])
        for call in items(delta.get("tool_calls")):
            _add_chat_call(to, message, call)
        if reason := choice.get("finish_reason"):
            kept["finish_reason"], to.is_over = reason, True


def _add_chat_call(to: Assembled, message: dict[str, Any], delta: dict[str, Any]) -> None:
    function = table(delta.get("function"))
    last = len(to.parts) - (not delta.get("id"))  # some servers give no index, and the id once
    place = str(delta.get("index", max(last, 0)))
    if delta.get("id") and place in to.parts and to.parts[place]["id"] not in ("", delta["id"]):
        to.parts[f"{place} of {len(to.parts)}"] = to.parts.pop(place)  # others give all the same index
    if place not in to.parts:
        to.parts[place] = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        message.setdefault("tool_calls", []).append(to.parts[place])
    call = to.parts[place]
    call["id"] = call["id"] or text_of(delta.get("id"))
    call["function"]["name"] = call["function"]["name"] or text_of(function.get("name"))
    _grow(call["function"], "arguments", function.get("arguments"))


# --- messages --------------------------------------------------------------------------------------


def _add_messages(to: Assembled, event: Event) -> None:
    kind, place = event.get("type"), str(event.get("index"))
    if kind == "error":
        to.error = _message_of(event.get("error"))
    elif kind == "message_start":
        to.whole["id"] = table(event.get("message")).get("id")
    elif kind == "content_block_start":
        to.parts[place] = dict(table(event.get("content_block")))
        to.whole["content"].append(to.parts[place])
    elif kind == "content_block_delta" and place in to.parts:
        _add_block_delta(to.parts[place], table(event.get("delta")))
    elif kind == "message_delta":
        to.whole["stop_reason"] = table(event.get("delta")).get("stop_reason")
    elif kind == "message_stop":
        to.is_over = True


def _add_block_delta(block: dict[str, Any], delta: dict[str, Any]) -> None:
    if "partial_json" in delta:
        if not isinstance(block.get("input"), str):
            block["input"] = ""
        _grow(block, "input", delta["partial_json"])
    for key in ("text", "thinking", "signature"):
        if key in delta:
            _grow(block, key, delta[key])


# --- responses -------------------------------------------------------------------------------------

_GROWS = {
    "response.output_text.delta": ("content", "output_text"),
    "response.refusal.delta": ("content", "refusal"),
    "response.reasoning_text.delta": ("content", "reasoning_text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_text"),
}
_ENDS = ("response.completed", "response.incomplete", "response.failed")


def _add_responses(to: Assembled, event: Event) -> None:
    kind, place = text_of(event.get("type")), str(event.get("output_index"))
    if kind in _ENDS:
        response = table(event.get("response"))
        to.whole |= {**response, "output": response.get("output") or to.whole["output"]}
        to.is_over = True
        to.error = _message_of(response.get("error")) if kind == "response.failed" else ""
    elif kind == "error":
        to.error = _message_of(event.get("error") or event)
    elif kind == "response.created":
        to.whole["id"] = table(event.get("response")).get("id")
    elif kind == "response.output_item.added":
        to.parts[place] = dict(table(event.get("item")))
        to.whole["output"].append(to.parts[place])
    elif kind == "response.output_item.done":
        _item_done(to, place, table(event.get("item")))
    elif place in to.parts:
        _add_item_delta(to.parts[place], kind, event)


def _item_done(to: Assembled, place: str, item: dict[str, Any]) -> None:
    if place not in to.parts:
        to.parts[place] = {}
        to.whole["output"].append(to.parts[place])
    to.parts[place].clear()
    to.parts[place].update(item)


def _add_item_delta(item: dict[str, Any], kind: str, event: Event) -> None:
    if kind in _GROWS:
        key, part = _GROWS[kind]
        item[key] = items(item.get(key)) or [{"type": part, "text": ""}]
        _grow(item[key][-1], "text", event.get("delta"))
    elif kind == "response.function_call_arguments.delta":
        _grow(item, "arguments", event.get("delta"))
    elif kind == "response.custom_tool_call_input.delta":
        _grow(item, "input", event.get("delta"))


def _message_of(error: Any) -> str:
    return text_of(table(error).get("message")) or text_of(error) or "an error without a message"


_ASSEMBLERS: Mapping[str, tuple[Callable[[], dict[str, Any]], Callable[[Assembled, Event], None]]] = {
    "chat": (_chat_start, _add_chat),
    "messages": (lambda: {"content": [], "stop_reason": None}, _add_messages),
    "responses": (lambda: {"output": [], "status": "in_progress"}, _add_responses),
}
