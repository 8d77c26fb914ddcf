"""What the proxy says is what the official clients understand: whole, streamed, and refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import httpx
import openai
import pytest

from lego_harness.proxy import delivery
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.render import Renderer
from lego_harness.proxy.session import Session
from lego_harness.types import Budget, Sampling
from tests.support.conversation import BASH
from tests.support.scripted_engine import ScriptedEngine, say

Serve = Callable[[ScriptedEngine], Awaitable[CaptureProxy]]
ASK: list[Any] = [{"role": "user", "content": "Größe?"}]
TOOLS: list[Any] = [BASH]
CLAUDE_TOOLS: list[Any] = [{"name": "bash", "description": "Run.", "input_schema": {"type": "object"}}]
TWO_CALLS = say("Two – “at once”.", ("bash", {"command": "ls é"}), ("bash", {"command": "pwd"}))


@pytest.fixture
def session(renderer: Renderer, serve: Serve) -> Callable[..., Awaitable[Session]]:
    async def open_session(*steps: Any) -> Session:
        proxy = await serve(ScriptedEngine(renderer, steps))
        return proxy.open_session("r", Sampling(seed=1, max_tokens=200), Budget())

    return open_session


def chat_client(session: Session) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=session.endpoint.host_url + "/v1", api_key="x", max_retries=0)


def claude_client(session: Session) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=session.endpoint.host_url, api_key="x", max_retries=0)


def sampled(session: Session) -> int:
    return sum(len(turn.sampled_ids) for turn in session.close().turns)


async def test_openai_reads_a_whole_reply(session: Any) -> None:
    opened = await session(TWO_CALLS)
    async with chat_client(opened) as client:
        reply = await client.chat.completions.create(model="policy", messages=ASK, tools=TOOLS)
    choice = reply.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == TWO_CALLS["content"]
    calls: Any = choice.message.tool_calls
    assert [call.function.arguments for call in calls] == ['{"command": "ls é"}', '{"command": "pwd"}']
    assert len({call.id for call in calls}) == 2
    assert reply.usage
    assert reply.usage.completion_tokens == sampled(opened)


async def test_openai_streams_the_same_reply(session: Any, renderer: Renderer) -> None:
    opened = await session(TWO_CALLS)
    async with (
        chat_client(opened) as client,
        client.chat.completions.stream(
            model="policy", messages=ASK, tools=TOOLS, stream_options={"include_usage": True}
        ) as stream,
    ):
        kinds = [event.type async for event in stream]
        reply = await stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in kinds
    assert reply.choices[0].message.content == TWO_CALLS["content"]
    calls: Any = reply.choices[0].message.tool_calls
    assert [call.function.arguments for call in calls] == ['{"command": "ls é"}', '{"command": "pwd"}']
    assert reply.usage
    assert reply.usage.prompt_tokens == len(renderer.render(ASK, TOOLS))
    assert reply.usage.completion_tokens == sampled(opened)


async def test_anthropic_reads_a_whole_reply(session: Any) -> None:
    opened = await session(TWO_CALLS)
    async with claude_client(opened) as client:
        reply = await client.messages.create(model="policy", max_tokens=9, messages=ASK, tools=CLAUDE_TOOLS)
    assert reply.stop_reason == "tool_use"
    text, first, second = reply.content
    assert text.type == "text"
    assert text.text == TWO_CALLS["content"]
    assert first.type == second.type == "tool_use"
    assert (first.input, second.input) == ({"command": "ls é"}, {"command": "pwd"})
    assert first.id.startswith("toolu_")
    assert reply.usage.output_tokens == sampled(opened)


async def test_anthropic_streams_the_same_reply(session: Any) -> None:
    opened = await session(TWO_CALLS)
    async with (
        claude_client(opened) as client,
        client.messages.stream(model="policy", max_tokens=9, messages=ASK, tools=CLAUDE_TOOLS) as stream,
    ):
        reply = await stream.get_final_message()
    assert [block.type for block in reply.content] == ["text", "tool_use", "tool_use"]
    assert [b.input for b in reply.content if b.type == "tool_use"] == [
        {"command": "ls é"},
        {"command": "pwd"},
    ]
    assert reply.stop_reason == "tool_use"
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens == sampled(opened)


async def test_blocking_clients_read_the_same(session: Any) -> None:
    chat = await session(TWO_CALLS)

    def ask_openai() -> str | None:
        with openai.OpenAI(base_url=chat.endpoint.host_url + "/v1", api_key="x") as client:
            stream = client.chat.completions.create(model="policy", messages=ASK, stream=True)
            return "".join(chunk.choices[0].delta.content or "" for chunk in stream)

    assert await asyncio.to_thread(ask_openai) == TWO_CALLS["content"]
    chat.close()
    claude = await session(TWO_CALLS)

    def ask_anthropic() -> Any:
        with (
            anthropic.Anthropic(base_url=claude.endpoint.host_url, api_key="x") as client,
            client.messages.stream(model="policy", max_tokens=9, messages=ASK) as stream,
        ):
            return stream.get_final_message().content[1]

    assert (await asyncio.to_thread(ask_anthropic)).input == {"command": "ls é"}


async def test_reasoning_comes_in_the_dialects_own_place(session: Any) -> None:
    thought = {**say("Yes."), "reasoning_content": "Hm."}
    opened = await session(thought)
    async with chat_client(opened) as client:
        reply = await client.chat.completions.create(model="policy", messages=ASK)
    assert (reply.choices[0].message.content, reply.choices[0].message.model_extra) == (
        "Yes.",
        {"reasoning_content": "Hm."},
    )
    opened.close()
    opened = await session(thought)
    async with (
        claude_client(opened) as client,
        client.messages.stream(model="policy", max_tokens=9, messages=ASK) as stream,
    ):
        message = await stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "text"]


async def test_a_cut_reply_says_so(session: Any, renderer: Renderer) -> None:
    cut = renderer.vocabulary.encode("a b c")
    opened = await session(cut)
    async with chat_client(opened) as client:
        reply = await client.chat.completions.create(model="policy", messages=ASK)
    assert (reply.choices[0].finish_reason, reply.choices[0].message.content) == ("length", "a b c")
    opened.close()
    opened = await session(cut)
    async with claude_client(opened) as client:
        message = await client.messages.create(model="policy", max_tokens=9, messages=ASK)
    assert message.stop_reason == "max_tokens"


async def test_models_and_token_counts(session: Any, renderer: Renderer) -> None:
    opened = await session()
    async with chat_client(opened) as client, claude_client(opened) as other:
        assert [model.id async for model in client.models.list()] == ["policy"]
        assert [model.id async for model in other.models.list()] == ["policy"]
        counted = await other.messages.count_tokens(model="policy", messages=ASK, system="S")
    asked = [{"role": "system", "content": "S"}, *ASK]
    assert counted.input_tokens == len(renderer.render(asked))
    assert opened.close().turns == ()


async def test_errors_become_the_clients_own_exceptions(session: Any) -> None:
    opened = await session()
    bad: Any = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]
    picture: Any = [{"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]}]
    async with chat_client(opened) as client, claude_client(opened) as other:
        with pytest.raises(openai.BadRequestError, match="reads text only") as caught:
            await client.chat.completions.create(model="policy", messages=bad)
        assert caught.value.type == "invalid_request_error"
        with pytest.raises(anthropic.BadRequestError, match="reads text only") as refused:
            await other.messages.create(model="policy", max_tokens=9, messages=picture, stream=True)
        assert refused.value.type == "invalid_request_error"


async def test_a_wrong_secret_is_an_authentication_error_in_every_dialect(session: Any) -> None:
    opened = await session()
    url = opened.endpoint.host_url[:-1] + ("a" if opened.endpoint.host_url[-1] != "a" else "b")
    async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="x", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(model="policy", messages=ASK)
    async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as other:
        with pytest.raises(anthropic.AuthenticationError):
            await other.messages.create(model="policy", max_tokens=9, messages=ASK)
    assert opened.close().turns == ()


async def test_the_unix_socket_serves_the_same(session: Any) -> None:
    opened = await session(say("Hi."))
    endpoint = opened.endpoint
    transport = httpx.AsyncHTTPTransport(uds=str(endpoint.socket))
    async with httpx.AsyncClient(transport=transport) as http:
        url = f"http://anything{endpoint.path}/v1/chat/completions"
        answer = await http.post(url, json={"messages": ASK})
    assert answer.json()["choices"][0]["message"]["content"] == "Hi."


@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_a_slow_engine_keeps_the_stream_alive(
    dialect: str, renderer: Renderer, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "KEEP_ALIVE_S", 0.01)
    gate = asyncio.Event()
    proxy = await serve(ScriptedEngine(renderer, [say("Late."), RuntimeError], gate=gate))
    opened = proxy.open_session("r", Sampling(), Budget())
    path = "chat/completions" if dialect == "chat" else "messages"
    sign = ": keep-alive" if dialect == "chat" else "event: ping"
    async with (
        httpx.AsyncClient() as http,
        http.stream(
            "POST", f"{opened.endpoint.host_url}/v1/{path}", json={"messages": ASK, "stream": True}
        ) as answer,
    ):
        lines = answer.aiter_lines()
        assert await anext(lines) == sign
        gate.set()
        rest = [line async for line in lines]
    assert any("Late." in line for line in rest)
    assert "ping" not in "".join(rest[-3:])


@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_a_failure_after_the_stream_began_is_an_error_event(
    dialect: str, renderer: Renderer, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lego_harness.errors import EngineError

    monkeypatch.setattr(delivery, "KEEP_ALIVE_S", 0.01)
    gate = asyncio.Event()
    proxy = await serve(ScriptedEngine(renderer, [EngineError("the engine died")], gate=gate))
    opened = proxy.open_session("r", Sampling(), Budget())
    if dialect == "chat":
        async with chat_client(opened) as client:
            stream = await client.chat.completions.create(model="policy", messages=ASK, stream=True)
            gate.set()  # a stream has begun, with signs of life only
            with pytest.raises(openai.APIError, match="failed_engine"):
                async for _ in stream:
                    pass
    else:
        async with (
            claude_client(opened) as other,
            other.messages.stream(model="policy", max_tokens=9, messages=ASK) as events,
        ):
            gate.set()
            with pytest.raises(anthropic.APIError, match="failed_engine"):
                await events.get_final_message()
    assert "the engine died" in opened.close().error
