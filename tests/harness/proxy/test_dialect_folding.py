"""What means the same folds to the same conversation, and what differs does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_harness.proxy.conversation import CallForm, Request
from lego_harness.proxy.dialects.base import Dialect
from lego_harness.proxy.dialects.chat import ChatDialect
from lego_harness.proxy.dialects.messages import MessagesDialect
from lego_harness.proxy.dialects.responses import ResponsesDialect

CHAT, MESSAGES, RESPONSES = ChatDialect(), MessagesDialect(), ResponsesDialect()
SCHEMA = {"type": "object", "properties": {"x": {"type": "number"}}}


def chat(*messages: Any, **fields: Any) -> Request:
    return CHAT.fold({"messages": list(messages), **fields})


def messages(*wire: Any, **fields: Any) -> Request:
    return MESSAGES.fold({"messages": list(wire), **fields})


def responses(*items: Any, **fields: Any) -> Request:
    return RESPONSES.fold({"input": list(items), **fields})


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


def text(content: str, kind: str = "text", **marks: Any) -> dict[str, Any]:
    return {"type": kind, "text": content, **marks}


def chat_call(call_id: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def test_one_conversation_is_the_same_in_every_dialect() -> None:
    said = [
        chat(
            {"role": "system", "content": "S"},
            user([text("a"), text("b")]),
            assistant(None, reasoning="Hm.", tool_calls=[chat_call("1", '{"x":1}'), chat_call("2", "{}")]),
            {"role": "tool", "tool_call_id": "2", "content": "two"},
            {"role": "tool", "tool_call_id": "1", "content": [text("one")]},
            {"role": "developer", "content": "D"},
            user("c"),
            tools=[{"type": "function", "function": {"name": "f", "description": "F", "parameters": SCHEMA}}],
        ),
        messages(
            user([text("a", cache_control={"type": "ephemeral"}), text("b")]),
            assistant(
                [
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}},
                    {"type": "tool_use", "id": "2", "name": "f", "input": {}},
                ]
            ),
            user(
                [
                    {"type": "tool_result", "tool_use_id": "2", "content": "two", "is_error": True},
                    {"type": "tool_result", "tool_use_id": "1", "content": [text("one")]},
                ]
            ),
            {"role": "system", "content": [text("D")]},
            user("c"),
            system=[text("x-anthropic-billing-header: v=1"), text("S", cache_control={})],
            tools=[{"name": "f", "description": "F", "input_schema": SCHEMA, "cache_control": {}}],
        ),
        responses(
            item("message", role="user", content=[text("a", "input_text"), text("b", "input_text")]),
            item("reasoning", summary=[text("Hm.", "summary_text")], encrypted_content="opaque"),
            item("function_call", call_id="1", name="f", arguments='{"x":1}', id="fc", status="completed"),
            item("function_call", call_id="2", name="f", arguments=""),
            item("function_call_output", call_id="2", output="two"),
            item("function_call_output", call_id="1", output=[text("one", "input_text")]),
            item("message", role="developer", content=[text("D", "input_text")]),
            user("c"),
            instructions="S",
            tools=[
                {"type": "function", "name": "f", "description": "F", "parameters": SCHEMA, "strict": True}
            ],
        ),
    ]
    for request in said:
        assert request.messages == [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "a\nb"},
            {
                "role": "assistant",
                "content": "",
                "reasoning_content": "Hm.",
                "tool_calls": [
                    {"type": "function", "id": "1", "function": {"name": "f", "arguments": {"x": 1}}},
                    {"type": "function", "id": "2", "function": {"name": "f", "arguments": {}}},
                ],
            },
            {"role": "tool", "content": "one", "tool_call_id": "1"},
            {"role": "tool", "content": "two", "tool_call_id": "2"},
            {"role": "system", "content": "D"},
            {"role": "user", "content": "c"},
        ]
        assert request.tools == [
            {"type": "function", "function": {"name": "f", "description": "F", "parameters": SCHEMA}}
        ]
    assert len({request.fingerprint for request in said}) == 3


def test_every_part_of_a_request_counts_for_its_fingerprint() -> None:
    def told(
        dialect: Dialect, *, first: str = "a", last: str = "z", system: str = "S", x: Any = 1, tool: str = "f"
    ) -> str:
        turns = [user(first), assistant("b"), user("c"), assistant("d"), user(last)]
        schema = {"properties": {"x": {"default": x}}}
        functions = [{"type": "function", "name": tool, "parameters": schema, "input_schema": schema}]
        tools = [{"type": "function", "function": functions[0]}] if dialect is CHAT else functions
        if dialect is CHAT:
            turns.insert(0, {"role": "system", "content": system})
        return dialect.fold(
            {dialect.grows: turns, "system": system, "instructions": system, "tools": tools}
        ).fingerprint

    for dialect in (CHAT, MESSAGES, RESPONSES):
        variants: list[dict[str, Any]] = [
            {}, {"first": "A"}, {"last": "Z"}, {"system": "T"}, {"x": 1.0}, {"x": True}, {"tool": "g"},
        ]  # fmt: skip
        assert len({told(dialect, **variant) for variant in variants}) == len(variants)
        assert told(dialect) == told(dialect)


@pytest.mark.parametrize("wire", [user("x"), user([text("x")]), user([text("x", cache_control={})])])
def test_block_or_string_and_cache_marks_make_no_difference(wire: Any) -> None:
    assert messages(wire).fingerprint == messages(user("x")).fingerprint


@pytest.mark.parametrize(
    "system",
    [
        [text("x-anthropic-billing-header: cch=1f3;"), text("S")],
        [text("x-anthropic-billing-header: cch=2a4;\n\nS")],
        "x-anthropic-billing-header: cch=3b5;\nS",
        [text("S"), text("")],
        "S",
    ],
)
def test_the_billing_line_is_no_part_of_the_system_prompt(system: Any) -> None:
    assert messages(user("x"), system=system).messages == [{"role": "system", "content": "S"}, user("x")]
    assert messages(user("x"), system="x-anthropic-billing-header: cch=4c6;").messages == [user("x")]


def test_text_around_tool_results_keeps_its_place() -> None:
    results = [{"type": "tool_result", "tool_use_id": str(i), "content": f"r{i}"} for i in range(2)]
    request = messages(user([text("a"), results[0], text(""), results[1], text("b"), text("c")]))
    assert [message["content"] for message in request.messages] == ["a", "r0", "r1", "b\nc"]


@settings(max_examples=60)
@given(ids=st.lists(st.sampled_from(["0", "1", "2", "of no call"]), max_size=8))
def test_results_stand_in_the_order_of_their_calls_and_else_as_they_came(ids: list[str]) -> None:
    calls = assistant(None, tool_calls=[chat_call(str(i), "{}") for i in range(3)])
    results = [
        {"role": "tool", "tool_call_id": call_id, "content": f"{at}"} for at, call_id in enumerate(ids)
    ]
    told = chat(user("a"), calls, *results).messages[2:]
    expected = [at for wanted in ("0", "1", "2", "of no call") for at, one in enumerate(ids) if one == wanted]
    assert [message["content"] for message in told] == [f"{at}" for at in expected]


def test_many_results_are_ordered_in_one_pass() -> None:
    """Otherwise this takes a quarter of an hour, in which the worker serves nobody."""
    num = 20_000
    calls = assistant(None, tool_calls=[chat_call(str(i), "{}") for i in range(num)])
    results = [{"role": "tool", "tool_call_id": str(i), "content": f"{i}"} for i in reversed(range(num))]
    told = chat(calls, *results).messages[1:]
    assert [message["content"] for message in told] == [f"{i}" for i in range(num)]


def test_an_empty_message_is_still_a_message() -> None:
    assert messages(user([]), assistant([])).messages == [user(""), assistant("")]
    assert chat(user(None), assistant(None)).messages == [user(""), assistant("")]
    assert responses(item("message", role="assistant", content=[])).messages == [assistant("")]


def test_assistant_turns_in_a_row_stay_apart_where_the_dialect_tells_them_apart() -> None:
    assert chat(assistant("a"), assistant("b")).messages == [assistant("a"), assistant("b")]
    assert messages(assistant("a"), assistant("b")).messages == [assistant("a"), assistant("b")]
    said = [item("message", role="assistant", content=[text(t, "output_text")]) for t in "ab"]
    assert responses(*said).messages == [assistant("a\nb")]


def test_a_string_is_a_users_message() -> None:
    assert RESPONSES.fold({"input": "x"}).messages == [user("x")]


def test_reasoning_content_is_preferred_to_its_summary() -> None:
    thought = item(
        "reasoning", summary=[text("short", "summary_text")], content=[text("long", "reasoning_text")]
    )
    assert responses(user("x"), thought).messages[1]["reasoning_content"] == "long"
    assert "reasoning_content" not in responses(user("x"), item("reasoning", summary=[])).messages[1]


def test_custom_tools_and_namespaces_become_functions() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: X"}
    request = responses(
        item("additional_tools", role="developer", tools=[{"type": "function", "name": "late"}]),
        item("custom_tool_call", call_id="1", name="patch", input="p"),
        item("function_call", call_id="2", name="spawn", namespace="agents", arguments="{}"),
        item("custom_tool_call_output", call_id="1", output="done"),
        tools=[
            {"type": "custom", "name": "patch", "description": "P", "format": grammar},
            {"type": "custom", "name": "plain"},
            {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]},
            {"type": "web_search"},
            {"type": "image_generation"},
        ],
    )
    specs = [tool["function"] for tool in request.tools]
    assert [spec["name"] for spec in specs] == ["patch", "plain", "agents.spawn", "late"]
    assert specs[0].get("parameters") == {
        "type": "object",
        "properties": {
            "input": {"type": "string", "description": "Text that fits this lark grammar:\nstart: X"}
        },
        "required": ["input"],
    }
    assert request.call_forms == {
        "patch": CallForm(name="patch", is_text=True),
        "plain": CallForm(name="plain", is_text=True),
        "agents.spawn": CallForm(name="spawn", namespace="agents"),
    }
    called = [call["function"] for call in request.messages[0].get("tool_calls", [])]
    assert called == [
        {"name": "patch", "arguments": {"input": "p"}},
        {"name": "agents.spawn", "arguments": {}},
    ]


def test_what_is_asked_about_sampling_is_recorded_under_its_own_name() -> None:
    assert chat(user("x"), temperature=0, max_completion_tokens=5, metadata={}).asked == {
        "temperature": 0,
        "max_completion_tokens": 5,
    }
    assert messages(user("x"), max_tokens=5, thinking={"type": "adaptive"}).asked == {
        "max_tokens": 5,
        "thinking": {"type": "adaptive"},
    }
    assert responses(user("x"), reasoning={"effort": "high"}, store=False).asked == {
        "reasoning": {"effort": "high"},
        "store": False,
    }
