"""The official `anthropic` client understands every Messages answer, and is understood."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import pytest

from lego_harness.proxy.render import Renderer
from tests.support.official_clients import (
    COMMANDS,
    THOUGHT,
    TWO_CALLS,
    async_anthropic,
    blocking_anthropic,
    num_sampled,
    said,
    wrong_secret,
)
from tests.support.scripted_engine import say

ASK: list[Any] = [{"role": "user", "content": "Größe?"}]
TOOLS: list[Any] = [{"name": "bash", "description": "Run.", "input_schema": {"type": "object"}}]
BASICS: dict[str, Any] = {"model": "policy", "max_tokens": 9, "messages": ASK}


async def test_a_whole_reply(session: Any) -> None:
    opened = await session(TWO_CALLS)
    async with async_anthropic(opened) as client:
        reply = await client.messages.create(**BASICS, tools=TOOLS)
    assert (reply.stop_reason, reply.model) == ("tool_use", "policy")
    text, first, second = reply.content
    assert text.text == TWO_CALLS["content"]
    assert [first.input, second.input] == COMMANDS
    assert first.id.startswith("toolu_")
    assert first.id != second.id
    assert reply.usage.output_tokens == num_sampled(opened)


async def test_a_streamed_reply(session: Any, renderer: Renderer) -> None:
    opened = await session(TWO_CALLS)
    async with async_anthropic(opened) as client, client.messages.stream(**BASICS, tools=TOOLS) as stream:
        kinds = [event.type async for event in stream]
        reply = await stream.get_final_message()
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert [block.type for block in reply.content] == ["text", "tool_use", "tool_use"]
    assert [block.input for block in reply.content if block.type == "tool_use"] == COMMANDS
    assert reply.stop_reason == "tool_use"
    tool = {
        "type": "function",
        "function": {"name": "bash", "description": "Run.", "parameters": {"type": "object"}},
    }
    assert reply.usage.input_tokens == len(renderer.render(ASK, [tool]))
    assert reply.usage.output_tokens == num_sampled(opened)


async def test_the_blocking_client_raw_responses_and_the_text_stream(session: Any) -> None:
    opened = await session(TWO_CALLS, say("Again."), say("Words."))

    def ask() -> tuple[Any, str, str]:
        with blocking_anthropic(opened) as client:
            with client.messages.stream(**BASICS) as stream:
                first = stream.get_final_message().content[1].input
            raw: Any = client.messages.with_raw_response.create(**BASICS)
            with client.messages.stream(**BASICS) as stream:
                words = "".join(stream.text_stream)
            return first, raw.parse().content[0].text, words

    assert await asyncio.to_thread(ask) == (COMMANDS[0], "Again.", "Words.")


async def test_thinking_whole_and_streamed(session: Any) -> None:
    opened = await session(THOUGHT, THOUGHT)
    async with async_anthropic(opened) as client:
        whole = await client.messages.create(**BASICS)
        async with client.messages.stream(**BASICS) as stream:
            streamed = await stream.get_final_message()
    for reply in (whole, streamed):
        thought, text = reply.content
        assert (thought.type, thought.thinking, text.text) == ("thinking", "Hm.\nWell.", "Yes.")
        assert thought.signature, "some clients drop a thought without one"


async def test_blocks_come_back_with_results_in_any_order(session: Any) -> None:
    opened = await session({**TWO_CALLS, "reasoning_content": "Hm."}, say("Done."))
    async with async_anthropic(opened) as client:
        reply = await client.messages.create(**BASICS, tools=TOOLS)
        ids = [block.id for block in reply.content if block.type == "tool_use"]
        results: list[Any] = [
            {"type": "tool_result", "tool_use_id": ids[1], "content": "second", "is_error": True},
            {"type": "tool_result", "tool_use_id": ids[0], "content": [{"type": "text", "text": "first"}]},
            {"type": "text", "text": "Go on."},
        ]
        history: Any = [*ASK, reply.to_param(), {"role": "user", "content": results}]
        await client.messages.create(**{**BASICS, "messages": history}, tools=TOOLS)
    told = said(opened)
    assert [m["role"] for m in told] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert [m["content"] for m in told[2:5]] == ["first", "second", "Go on."]
    assert len(opened.close().branches) == 1


async def test_a_cut_reply(session: Any, renderer: Renderer) -> None:
    opened = await session(renderer.vocabulary.encode("a b c"))
    async with async_anthropic(opened) as client:
        reply = await client.messages.create(**BASICS)
    assert (reply.stop_reason, reply.content[0].text) == ("max_tokens", "a b c")


async def test_the_beta_client_is_served_as_well(session: Any) -> None:
    opened = await session(TWO_CALLS)
    async with async_anthropic(opened) as client:
        reply = await client.beta.messages.create(**BASICS, betas=["context-management-2025-06-27"])
    assert reply.content[1].input == COMMANDS[0]


async def test_models_and_token_counts(session: Any, renderer: Renderer) -> None:
    opened = await session()
    async with async_anthropic(opened) as client:
        assert [model.id async for model in client.models.list()] == ["policy"]
        assert (await client.models.retrieve("coder")).display_name == "coder"
        counted = await client.messages.count_tokens(model="policy", messages=ASK, system="S")
    asked = [{"role": "system", "content": "S"}, *ASK]
    assert counted.input_tokens == len(renderer.render(asked))
    assert opened.close().turns == ()


def of_user(block: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [block]}]}


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (of_user(PICTURE), "'image'; this model reads text only"),
        (of_user({"type": "document", "source": {"type": "text", "data": "x"}}), "'document'"),
        (of_user({"type": "tool_result", "tool_use_id": "t", "content": [PICTURE]}), "'image'"),
        (of_user({"type": "tool_result", "content": "x"}), "tool_use_id"),
        ({"messages": [{"role": "assistant", "content": [{"type": "server_tool_use"}]}]}, "server_tool_use"),
        ({"messages": []}, "messages"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "none that a server runs"),
        ({"system": [PICTURE]}, "system: a block of type 'image'"),
    ],
)
async def test_what_is_not_served_is_a_bad_request(session: Any, fields: Any, says: str) -> None:
    opened = await session()
    async with async_anthropic(opened) as client:
        for stream in (False, True):
            with pytest.raises(anthropic.BadRequestError, match=says) as caught:
                await client.messages.create(**{**BASICS, "stream": stream, **fields})
            assert caught.value.type == "invalid_request_error"
    assert opened.close().turns == ()


async def test_errors_have_the_clients_own_types(session: Any) -> None:
    opened = await session()
    async with async_anthropic(opened) as client:
        with pytest.raises(anthropic.NotFoundError, match="nothing is served at"):
            await client.messages.batches.retrieve("b")
        client.base_url = wrong_secret(opened.endpoint.host_url)
        with pytest.raises(anthropic.AuthenticationError, match="no rollout has this address"):
            await client.messages.create(**BASICS)
