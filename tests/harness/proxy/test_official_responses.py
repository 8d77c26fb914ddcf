"""The official `openai` client understands every Responses answer, and is understood."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from lego_harness.proxy.render import Renderer
from tests.support.official_clients import (
    COMMANDS,
    THOUGHT,
    TWO_CALLS,
    async_openai,
    blocking_openai,
    num_sampled,
    said,
    wrong_secret,
)
from tests.support.scripted_engine import say

COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}}
BASH = {"type": "function", "name": "bash", "description": "Run.", "parameters": COMMAND, "strict": False}
PATCH = {
    "type": "custom",
    "name": "patch",
    "description": "Edit.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}
AGENTS = {
    "type": "namespace",
    "name": "agents",
    "description": "Helpers.",
    "tools": [{"type": "function", "name": "spawn", "parameters": {"type": "object"}}, PATCH],
}
TOOLS: list[Any] = [BASH, PATCH, AGENTS, {"type": "web_search"}]
ALL_KINDS = {
    **say(
        "At once.",
        ("bash", COMMANDS[0]),
        ("patch", {"input": "*** é\n"}),
        ("agents.spawn", {"task": "t"}),
        ("agents.patch", {"input": ""}),
    ),
    "reasoning_content": "Hm.",
}


def kinds(output: Any) -> list[tuple[str, str | None, str | None]]:
    return [(item.type, getattr(item, "name", None), getattr(item, "namespace", None)) for item in output]


KINDS = [
    ("reasoning", None, None),
    ("message", None, None),
    ("function_call", "bash", None),
    ("custom_tool_call", "patch", None),
    ("function_call", "spawn", "agents"),
    ("custom_tool_call", "patch", "agents"),
]


async def test_a_whole_reply(session: Any, renderer: Renderer) -> None:
    opened = await session(TWO_CALLS)
    async with async_openai(opened) as client:
        reply = await client.responses.create(model="policy", input="Größe?", tools=[BASH], instructions="S")
    assert (reply.status, reply.error, reply.incomplete_details) == ("completed", None, None)
    assert reply.output_text == TWO_CALLS["content"]
    calls: Any = reply.output[1:]
    assert [call.arguments for call in calls] == ['{"command": "ls é"}', '{"command": "pwd"}']
    tool = {"type": "function", "function": {"name": "bash", "description": "Run.", "parameters": COMMAND}}
    asked = [{"role": "system", "content": "S"}, {"role": "user", "content": "Größe?"}]
    assert reply.usage
    assert reply.usage.input_tokens == len(renderer.render(asked, [tool]))
    assert reply.usage.output_tokens == num_sampled(opened)


async def test_a_streamed_reply_with_items_of_every_kind(session: Any) -> None:
    opened = await session(ALL_KINDS)
    async with (
        async_openai(opened) as client,
        client.responses.stream(model="policy", input="x", tools=TOOLS) as stream,
    ):
        events = [event async for event in stream]
        reply = await stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    told = [event.type.removeprefix("response.") for event in events]
    assert told[:2] == ["created", "in_progress"]
    assert told[-1] == "completed"
    for kind in ("output_item.added", "output_item.done"):
        assert told.count(kind) == len(KINDS)
    for kind in ("reasoning_text", "output_text", "function_call_arguments", "custom_tool_call_input"):
        assert f"{kind}.delta" in told
        assert f"{kind}.done" in told
    done: Any = [event for event in events if event.type == "response.output_item.done"]
    assert kinds(reply.output) == kinds([event.item for event in done]) == KINDS
    output: Any = reply.output
    assert (output[0].content[0].text, reply.output_text) == ("Hm.", "At once.")
    assert (output[3].input, output[4].arguments, output[5].input) == ("*** é\n", '{"task": "t"}', "")


async def test_whole_and_streamed_say_the_same(session: Any) -> None:
    opened = await session(ALL_KINDS, ALL_KINDS)
    async with async_openai(opened) as client:
        whole = await client.responses.create(model="policy", input="x", tools=TOOLS)
        stream = await client.responses.create(model="policy", input="x", tools=TOOLS, stream=True)
        events: Any = [event async for event in stream]
    items = [event.item for event in events if event.type == "response.output_item.done"]
    without_ids = [item.model_dump(exclude={"id", "call_id"}) for item in whole.output]
    assert [item.model_dump(exclude={"id", "call_id"}) for item in items] == without_ids
    assert events[-1].response.output == items


async def test_the_blocking_client_and_raw_responses(session: Any) -> None:
    opened = await session(TWO_CALLS, say("Again."))

    def ask() -> tuple[str, str]:
        with blocking_openai(opened) as client:
            with client.responses.stream(model="policy", input="x") as stream:
                first = stream.get_final_response().output_text
            raw = client.responses.with_raw_response.create(model="policy", input="x")
            return first, raw.parse().output_text

    assert await asyncio.to_thread(ask) == (TWO_CALLS["content"], "Again.")


async def test_the_output_can_be_sent_back_as_input(session: Any) -> None:
    opened = await session(ALL_KINDS, say("Done."))
    ask: dict[str, Any] = {"role": "developer", "content": [{"type": "input_text", "text": "x"}]}
    async with async_openai(opened) as client:
        reply = await client.responses.create(model="policy", input=[ask], tools=TOOLS)  # type: ignore[list-item]
        results: list[Any] = [
            {
                "type": item.type + "_output",
                "call_id": item.call_id,
                "output": [{"type": "input_text", "text": item.name}] if item.name == "spawn" else item.name,
            }
            for item in reply.output
            if item.type in ("function_call", "custom_tool_call")
        ]
        history: Any = [
            ask,
            *(item.model_dump(exclude_none=True) for item in reply.output),
            *reversed(results),
        ]
        again = await client.responses.create(model="policy", input=history, tools=TOOLS)
    assert again.output_text == "Done."
    told = said(opened)
    assert [message["role"] for message in told] == ["system", "assistant", *["tool"] * 4, "assistant"]
    assert [message["content"] for message in told[2:6]] == ["bash", "patch", "spawn", "patch"]
    assert [call["function"]["name"] for call in told[1]["tool_calls"]] == [
        "bash",
        "patch",
        "agents.spawn",
        "agents.patch",
    ]
    assert len(opened.close().branches) == 1


async def test_reasoning_alone_is_followed_by_a_message(session: Any) -> None:
    opened = await session(THOUGHT, {**say(""), "reasoning_content": "Only this."})
    async with async_openai(opened) as client:
        first = await client.responses.create(model="policy", input="x")
        second = await client.responses.create(model="policy", input="y")
    assert [item.type for item in first.output] == ["reasoning", "message"]
    assert [item.type for item in second.output] == ["reasoning", "message"]
    assert second.output_text == ""


async def test_text_tools_called_in_another_way_are_handed_on_as_they_are(session: Any) -> None:
    opened = await session(say("", ("patch", {"patch": "x"}), ("nonesuch", {}), ("patch", {"input": 5})))
    async with async_openai(opened) as client:
        reply = await client.responses.create(model="policy", input="x", tools=TOOLS)
    calls: Any = reply.output
    assert kinds(calls) == [("function_call", name, None) for name in ("patch", "nonesuch", "patch")]
    assert [call.arguments for call in calls] == ['{"patch": "x"}', "{}", '{"input": 5}']


async def test_a_cut_reply_is_incomplete(session: Any, renderer: Renderer) -> None:
    cut = renderer.vocabulary.encode("a b c")
    opened = await session(cut, cut)
    async with async_openai(opened) as client:
        reply = await client.responses.create(model="policy", input="x")
        stream = await client.responses.create(model="policy", input="x", stream=True)
        last = [event async for event in stream][-1]
    assert (reply.status, reply.output_text) == ("incomplete", "a b c")
    assert reply.incomplete_details
    assert reply.incomplete_details.reason == "max_output_tokens"
    assert last.type == "response.incomplete"
    assert last.response.output_text == "a b c"


async def test_tokens_are_counted(session: Any, renderer: Renderer) -> None:
    opened = await session()
    async with async_openai(opened) as client:
        counted = await client.responses.input_tokens.count(model="policy", input="x", instructions="S")
    asked = [{"role": "system", "content": "S"}, {"role": "user", "content": "x"}]
    assert counted.input_tokens == len(renderer.render(asked))
    assert opened.close().turns == ()


IMAGE = {"role": "user", "content": [{"type": "input_image", "image_url": "data:", "detail": "auto"}]}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id: nothing is stored"),
        ({"conversation": "conv_1"}, "conversation: nothing is stored"),
        ({"prompt": {"id": "p"}}, "prompt: nothing is stored"),
        ({"background": True}, "background"),
        ({"input": [IMAGE]}, "'input_image'; this model reads text only"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "'item_reference'"),
        ({"input": [{"type": "compaction_trigger"}]}, "asks the server to summarise.*name the provider"),
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, r"input.0.call_id"),
        (
            {"tools": [{"type": "file_search", "vector_store_ids": []}]},
            "tools.0: a tool of type 'file_search'",
        ),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, "tools.0"),
    ],
)
async def test_what_is_not_served_is_a_bad_request(session: Any, fields: Any, says: str) -> None:
    opened = await session()
    async with async_openai(opened) as client:
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError, match=says) as caught:
                await client.responses.create(**{"model": "policy", "input": "x", "stream": stream, **fields})
            assert caught.value.type == "invalid_request_error"
    assert opened.close().turns == ()


async def test_summaries_of_the_server_are_refused_with_the_reason(session: Any) -> None:
    opened = await session()
    async with async_openai(opened) as client:
        with pytest.raises(openai.NotFoundError, match=r"asks the server to summarise.*name the provider"):
            await client.responses.compact(model="policy", input="x")


async def test_errors_have_the_clients_own_types(session: Any) -> None:
    opened = await session(say("Hi."))
    async with async_openai(opened) as client:
        reply = await client.responses.create(model="policy", input="x")
        for use in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
            with pytest.raises(openai.NotFoundError, match="nothing is stored here"):
                await use(reply.id)
        client.base_url = wrong_secret(opened.endpoint.host_url) + "/v1"
        with pytest.raises(openai.AuthenticationError, match="no rollout has this address"):
            await client.responses.create(model="policy", input="x")
