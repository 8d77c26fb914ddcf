"""A recorded reply → what the model said in it, and under which names.

Owns the reading of replies as servers write them. Invariant: never raises; what a reply lacks is left
out, and what did not arrive completely is marked. Knows nothing of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lego_harness.proxy.conversation import FunctionCall, Message, ToolCall
from lego_harness.proxy.strict_json import encode, read_object
from lego_harness.wire.recording import RecordedReply
from lego_harness.wire.stream import Assembled, assemble, items, table, text_of

JOIN = "\n"
CUT = ("length", "max_tokens", "model_context_window_exceeded")


@dataclass(kw_only=True, slots=True)
class Said:
    """One reply."""

    texts: list[str] = field(default_factory=list[str])
    thoughts: list[str] = field(default_factory=list[str])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    names: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """`(kind, id)` of the reply and of its parts, calls aside."""
    is_cut: bool = False
    """It ended at a limit of tokens."""
    is_over: bool = True
    """It was delivered to its end."""
    error: str = ""
    """What went wrong, if its own stream says so."""

    @property
    def message(self) -> Message:
        """The turn in canonical form."""
        message: Message = {"role": "assistant", "content": JOIN.join(filter(None, self.texts))}
        if thought := JOIN.join(filter(None, self.thoughts)):
            message["reasoning_content"] = thought
        if self.calls:
            message["tool_calls"] = self.calls
        return message

    @property
    def is_empty(self) -> bool:
        return not (self.calls or any(self.texts) or any(self.thoughts))

    def name(self, kind: str, value: Any) -> None:
        """Keep a name, if there is one."""
        if isinstance(value, str) and value:
            self.names.append((kind, value))

    def call(self, call_id: Any, name: Any, arguments: Any) -> None:
        """Keep a call; arguments that are no JSON object stay text."""
        if isinstance(arguments, str):
            found = read_object(arguments or "{}")
            arguments = arguments if found is None else found
        function: FunctionCall = {"name": text_of(name), "arguments": arguments or {}}
        self.calls.append({"type": "function", "id": text_of(call_id), "function": function})


def dialect_of(path: str) -> str:
    """`chat`, `messages` or `responses`; empty for a path that nobody samples for."""
    tail = path.partition("?")[0].rstrip("/")
    ends = {"/chat/completions": "chat", "/messages": "messages", "/responses": "responses"}
    return next((dialect for end, dialect in ends.items() if tail.endswith(end)), "")


def is_success(reply: RecordedReply) -> bool:
    """Whether its status says so."""
    return 200 <= reply.status < 300


def read_reply(dialect: str, reply: RecordedReply) -> Said:
    """What a reply with a status of success said."""
    if reply.sse is None:
        return _read(dialect, Assembled(whole=table(reply.whole), is_over=reply.abort is None))
    assembled = assemble(dialect, reply.sse)
    assembled.is_over = assembled.is_over and reply.abort is None
    return _read(dialect, assembled)


def read_text(dialect: str, text: str, *, is_stream: bool) -> Said:
    """What the text of a reply said, JSON or a stream."""
    if is_stream:
        return _read(dialect, assemble(dialect, text))
    return _read(dialect, Assembled(whole=read_object(text) or {}, is_over=True))


def error_of(reply: RecordedReply) -> str:
    """The message of a reply whose status is a failure."""
    whole = table(reply.whole)
    message = table(whole.get("error")).get("message") or whole.get("message") or whole.get("error")
    return text_of(message) or (encode(reply.whole) if reply.whole is not None else reply.sse or "")


def _read(dialect: str, assembled: Assembled) -> Said:
    said = Said(is_over=assembled.is_over and not assembled.error, error=assembled.error)
    said.name("reply", assembled.whole.get("id"))
    said_in, read = _READERS[dialect]
    if said_in not in assembled.whole:
        said.error = said.error or f"a reply without {said_in}"
    read(said, assembled.whole)
    return said


def _read_chat(said: Said, whole: dict[str, Any]) -> None:
    for choice in items(whole.get("choices"))[:1]:
        message = table(choice.get("message"))
        said.texts.append(_text(message.get("content")))
        said.thoughts.append(text_of(message.get("reasoning_content") or message.get("reasoning")))
        for call in items(message.get("tool_calls")):
            function = table(call.get("function"))
            said.call(call.get("id"), function.get("name"), function.get("arguments"))
        said.is_cut = choice.get("finish_reason") in CUT


def _read_messages(said: Said, whole: dict[str, Any]) -> None:
    for block in items(whole.get("content")):
        if block.get("type") == "tool_use":
            said.call(block.get("id"), block.get("name"), block.get("input"))
        elif block.get("type") == "thinking":
            said.thoughts.append(text_of(block.get("thinking")))
            said.name("thinking", block.get("signature"))
        else:
            said.texts.append(text_of(block.get("text")))
    said.is_cut = whole.get("stop_reason") in CUT


def _read_responses(said: Said, whole: dict[str, Any]) -> None:
    for item in items(whole.get("output")):
        kind = text_of(item.get("type"))
        said.name(kind, item.get("id"))
        name = ".".join(filter(None, (text_of(item.get("namespace")), text_of(item.get("name")))))
        if kind == "message":
            said.texts.append(_text(item.get("content")))
        elif kind == "reasoning":
            said.thoughts.append(_text(item.get("content")) or _text(item.get("summary")))
        elif kind == "function_call":
            said.call(item.get("call_id"), name, item.get("arguments"))
        elif kind == "custom_tool_call":
            said.call(item.get("call_id"), name, {"input": text_of(item.get("input"))})
    said.is_cut = whole.get("status") == "incomplete"


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = (text_of(part.get("text")) or text_of(part.get("refusal")) for part in items(content))
    return JOIN.join(filter(None, parts))


_READERS: Mapping[str, tuple[str, Callable[[Said, dict[str, Any]], None]]] = {
    "chat": ("choices", _read_chat),
    "messages": ("content", _read_messages),
    "responses": ("output", _read_responses),
}
