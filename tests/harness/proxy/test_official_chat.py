"""The official `openai` client understands every Chat Completions answer, and is understood."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from lego_harness.proxy.render import Renderer
from tests.support.conversation import BASH
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

ASK: list[Any] = [{"role": "user", "content": "Größe?"}]
TOOLS: list[Any] = [BASH]


def commands(message: Any) -> list[str]:
    return [call.function.arguments for call in message.tool_calls]


async def test_a_whole_reply(session: Any) -> None:
    opened = await session(TWO_CALLS)
    async with async_openai(opened) as client:
        reply = await client.chat.completions.create(model="policy", messages=ASK, tools=TOOLS)
    choice = reply.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", TWO_CALLS["content"])
    assert commands(choice.message) == ['{"command": "ls é"}', '{"command": "pwd"}']
    assert reply.usage
    assert reply.usage.completion_tokens == num_sampled(opened)


async def test_a_streamed_reply(session: Any, renderer: Renderer) -> None:
    opened = await session(TWO_CALLS)
    options: Any = {"include_usage": True}
    async with (
        async_openai(opened) as client,
        client.chat.completions.stream(
            model="policy", messages=ASK, tools=TOOLS, stream_options=options
        ) as stream,
    ):
        kinds = [event.type async for event in stream]
        reply = await stream.get_final_completion()
    assert kinds.count("tool_calls.function.arguments.done") == 2
    assert reply.choices[0].message.content == TWO_CALLS["content"]
    assert commands(reply.choices[0].message) == ['{"command": "ls é"}', '{"command": "pwd"}']
    assert reply.usage
    assert reply.usage.prompt_tokens == len(renderer.render(ASK, TOOLS))
    assert reply.usage.completion_tokens == num_sampled(opened)


async def test_usage_is_streamed_only_to_those_who_asked(session: Any) -> None:
    opened = await session(say("Hi."))
    async with async_openai(opened) as client:
        stream = await client.chat.completions.create(model="policy", messages=ASK, stream=True)
        chunks = [chunk async for chunk in stream]
    assert all(chunk.usage is None and len(chunk.choices) == 1 for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == 1


async def test_the_blocking_client_and_raw_responses(session: Any) -> None:
    opened = await session(say("Hi."), say("Again."))

    def ask() -> tuple[str, str | None]:
        with blocking_openai(opened) as client:
            stream = client.chat.completions.create(model="policy", messages=ASK, stream=True)
            first = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
            raw = client.chat.completions.with_raw_response.create(model="policy", messages=ASK)
            return first, raw.parse().choices[0].message.content

    assert await asyncio.to_thread(ask) == ("Hi.", "Again.")


async def test_reasoning_whole_and_streamed(session: Any) -> None:
    opened = await session(THOUGHT, THOUGHT)
    async with async_openai(opened) as client:
        whole = await client.chat.completions.create(model="policy", messages=ASK)
        stream = await client.chat.completions.create(model="policy", messages=ASK, stream=True)
        deltas = [chunk.choices[0].delta.model_extra or {} async for chunk in stream]
    message = whole.choices[0].message
    assert (message.content, message.model_extra) == ("Yes.", {"reasoning_content": "Hm.\nWell."})
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Hm.\nWell."


@pytest.mark.parametrize("spelling", ["reasoning", "reasoning_content"])
async def test_results_and_reasoning_come_back_in_any_order_and_spelling(session: Any, spelling: str) -> None:
    opened = await session({**TWO_CALLS, "reasoning_content": "Hm."}, say("Done."))
    async with async_openai(opened) as client:
        reply = await client.chat.completions.create(model="policy", messages=ASK, tools=TOOLS)
        message = reply.choices[0].message
        echo = message.model_dump(exclude={"reasoning_content"}, exclude_none=True) | {spelling: "Hm."}
        calls = message.tool_calls or []
        results = [{"role": "tool", "tool_call_id": call.id, "content": call.id[-4:]} for call in calls]
        history: Any = [*ASK, echo, *reversed(results)]
        await client.chat.completions.create(model="policy", messages=history, tools=TOOLS)
    told = said(opened)
    assert [message["role"] for message in told] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [message["content"] for message in told[2:4]] == [call.id[-4:] for call in calls]
    assert [call["function"]["arguments"] for call in told[1]["tool_calls"]] == COMMANDS
    assert len(opened.close().branches) == 1


async def test_a_cut_reply(session: Any, renderer: Renderer) -> None:
    opened = await session(renderer.vocabulary.encode("a b c"))
    async with async_openai(opened) as client:
        reply = await client.chat.completions.create(model="policy", messages=ASK)
    assert (reply.choices[0].finish_reason, reply.choices[0].message.content) == ("length", "a b c")


async def test_a_call_of_a_tool_that_is_not_offered_is_handed_on(session: Any) -> None:
    opened = await session(say("", ("nonesuch", {"x": 1})))
    async with async_openai(opened) as client:
        reply = await client.chat.completions.create(model="policy", messages=ASK, tools=TOOLS)
    calls: Any = reply.choices[0].message.tool_calls
    assert (calls[0].function.name, calls[0].function.arguments) == ("nonesuch", '{"x": 1}')


async def test_any_model_is_served_under_its_name(session: Any) -> None:
    opened = await session(say("Hi."))
    async with async_openai(opened) as client:
        assert [model.id async for model in client.models.list()] == ["policy"]
        assert (await client.models.retrieve("org/coder")).id == "org/coder"
        reply = await client.chat.completions.create(model="org/coder", messages=ASK)
    assert reply.model == "org/coder"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}
                ]
            },
            "text",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}, "text"),
        ({"n": 2}, "only 1 is served"),
        ({"functions": [{"name": "f", "parameters": {}}]}, "send `tools`"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.tool_call_id"),
        ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
    ],
)
async def test_what_is_not_served_is_a_bad_request(session: Any, fields: Any, says: str) -> None:
    opened = await session()
    async with async_openai(opened) as client:
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError, match=says) as caught:
                await client.chat.completions.create(
                    **{"model": "policy", "messages": ASK, "stream": stream, **fields}
                )
            assert caught.value.type == "invalid_request_error"
    assert opened.close().turns == ()


async def test_errors_have_the_clients_own_types(session: Any) -> None:
    opened = await session()
    async with async_openai(opened) as client:
        with pytest.raises(openai.NotFoundError, match="nothing is served at"):
            await client.embeddings.create(model="policy", input="x")
        client.base_url = wrong_secret(opened.endpoint.host_url) + "/v1"
        with pytest.raises(openai.AuthenticationError, match="no rollout has this address"):
            await client.chat.completions.create(model="policy", messages=ASK)
    opened.close()
    async with async_openai(opened) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(model="policy", messages=ASK)
