"""Replies are read as the dialects write them, whole, streamed or cut anywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_harness.proxy.conversation import Message, Reply
from lego_harness.proxy.routes import CHAT, MESSAGES, RESPONSES
from lego_harness.wire.recording import RecordedReply
from lego_harness.wire.said import dialect_of, read_reply

DIALECTS = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WORDS = st.text('abc\n"\\é', min_size=1, max_size=8)
ARGUMENTS = st.dictionaries(WORDS, TEXT | st.integers() | st.booleans(), max_size=2)


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    message: Message = {"role": "assistant", "content": draw(TEXT)}
    if thought := draw(TEXT):
        message["reasoning_content"] = thought
    calls = draw(st.lists(ARGUMENTS, max_size=3))
    if calls:
        message["tool_calls"] = [
            {"type": "function", "id": f"call_{i}", "function": {"name": f"tool{i}", "arguments": call}}
            for i, call in enumerate(calls)
        ]
    finish = draw(st.sampled_from(["length", "tool_calls" if calls else "stop"]))
    return Reply(
        id="ab12",
        created=1,
        model="m",
        message=message,
        finish_reason=finish,
        prompt_tokens=1,
        completion_tokens=2,
    )


def whole(dialect: str, reply: Reply) -> RecordedReply:
    return RecordedReply.model_validate(
        {"status": 200, "json": json.loads(json.dumps(DIALECTS[dialect].unfold(reply)))}
    )


def stream(dialect: str, reply: Reply) -> str:
    return b"".join(DIALECTS[dialect].events(reply, include_usage=True)).decode()


@pytest.mark.parametrize("dialect", DIALECTS)
@given(reply=replies())
def test_a_reply_says_the_same_whole_and_streamed(dialect: str, reply: Reply) -> None:
    one = read_reply(dialect, whole(dialect, reply))
    other = read_reply(dialect, RecordedReply(status=200, sse=stream(dialect, reply)))
    for said in (one, other):
        assert said.message == reply.message
        assert (said.is_cut, said.is_over, said.error) == (reply.finish_reason == "length", True, "")
    assert one.names == other.names


@pytest.mark.parametrize("dialect", DIALECTS)
@given(reply=replies(), share=st.floats(0, 1, exclude_max=True))
def test_a_stream_that_is_cut_anywhere_says_a_part(dialect: str, reply: Reply, share: float) -> None:
    sse = stream(dialect, reply)
    said = read_reply(dialect, RecordedReply(status=200, sse=sse[: int(share * len(sse))]))
    assert len(said.calls) <= len(reply.message.get("tool_calls", []))
    assert reply.message["content"].startswith(said.message["content"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["choices", "message", "content", "tool_calls", "function", "output", "type", "delta",
                         "text", "index", "input", "item", "response", "error", "stop_reason", "content_block"]),
        inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
@given(
    values=st.lists(JSON, max_size=4),
    kind=st.sampled_from(["content_block_delta", "response.completed", "x"]),
)
def test_nonsense_is_read_without_an_error(dialect: str, values: list[Any], kind: str) -> None:
    events = [{**value, "type": kind} if isinstance(value, dict) else value for value in values]
    read_reply(
        dialect, RecordedReply(status=200, sse="".join(f"data: {json.dumps(one)}\n\n" for one in events))
    )
    for value in values:
        read_reply(dialect, RecordedReply.model_validate({"status": 200, "json": value}))


def test_characters_that_end_lines_elsewhere_do_not_end_events() -> None:
    text = "a\u2028b\x85c\x0bd"
    chunk = {"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}
    sse = f"data: {json.dumps(chunk, ensure_ascii=False)}\r\n\r\ndata: [DONE]\r\n\r\n"
    assert read_reply("chat", RecordedReply(status=200, sse=sse)).texts == [text]


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    deltas = [
        {"id": "a", "function": {"name": "bash", "arguments": '{"x"'}},
        {"function": {"arguments": ": 1}"}},
        {"id": "b", "function": {"name": "edit", "arguments": "{}"}},
    ]
    sse = "".join(
        f"data: {json.dumps({'choices': [{'delta': {'tool_calls': [one]}}]})}\n\n" for one in deltas
    )
    said = read_reply("chat", RecordedReply(status=200, sse=sse))
    assert [(call["id"], call["function"]) for call in said.calls] == [
        ("a", {"name": "bash", "arguments": {"x": 1}}),
        ("b", {"name": "edit", "arguments": {}}),
    ]
    assert not said.is_over


def test_calls_that_all_have_the_same_index_are_told_apart_by_their_ids() -> None:
    deltas = [
        {"index": 0, "id": "a", "function": {"name": "bash", "arguments": '{"x"'}},
        {"index": 0, "id": "a", "function": {"arguments": ": 1}"}},
        {"index": 0, "id": "b", "function": {"name": "edit", "arguments": '{"y"'}},
        {"index": 0, "function": {"arguments": ": 2}"}},
        {"index": 0, "id": "c", "function": {"name": "read", "arguments": "{}"}},
    ]
    sse = "".join(
        f"data: {json.dumps({'choices': [{'delta': {'tool_calls': [one]}}]})}\n\n" for one in deltas
    )
    said = read_reply("chat", RecordedReply(status=200, sse=sse))
    assert [(call["id"], call["function"]["arguments"]) for call in said.calls] == [
        ("a", {"x": 1}),
        ("b", {"y": 2}),
        ("c", {}),
    ]


def test_arguments_that_are_no_json_object_stay_text() -> None:
    call = {"id": "c", "function": {"name": "bash", "arguments": '{"command": "ls", '}}
    reply = {"choices": [{"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    said = read_reply("chat", RecordedReply.model_validate({"status": 200, "json": reply}))
    assert said.calls[0]["function"]["arguments"] == '{"command": "ls", '


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/messages?beta=true", "messages"),
        ("/rollout/s/v1/messages", "messages"),
        ("/v1/messages/count_tokens", ""),
        ("/chat/completions", "chat"),
        ("/v1/responses/", "responses"),
        ("/v1/models", ""),
        ("/", ""),
    ],
)
def test_a_path_names_its_dialect(path: str, dialect: str) -> None:
    assert dialect_of(path) == dialect
