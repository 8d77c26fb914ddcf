"""What holds in every dialect: the socket, signs of life, failures once a stream has begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import httpx
import openai
import pytest

from lego_harness.errors import EngineError
from lego_harness.proxy import delivery
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.render import Renderer
from lego_harness.proxy.session import Session
from lego_harness.types import Budget, Sampling
from tests.support.official_clients import async_anthropic, async_openai
from tests.support.scripted_engine import ScriptedEngine, say

Serve = Callable[[ScriptedEngine], Awaitable[CaptureProxy]]
ASK: list[Any] = [{"role": "user", "content": "Größe?"}]
BODIES: dict[str, Any] = {
    "chat/completions": {"messages": ASK},
    "messages": {"messages": ASK},
    "responses": {"input": ASK},
}


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize("path", BODIES)
async def test_the_unix_socket_serves_the_same(session: Any, path: str, prefix: str) -> None:
    endpoint = (await session(say("Hi."))).endpoint
    transport = httpx.AsyncHTTPTransport(uds=str(endpoint.socket))
    async with httpx.AsyncClient(transport=transport) as http:
        answer = await http.post(f"http://anything{endpoint.path}{prefix}/{path}", json=BODIES[path])
    assert answer.status_code == 200
    assert '"Hi."' in answer.text


async def slow_session(
    serve: Serve, renderer: Renderer, step: Any, monkeypatch: pytest.MonkeyPatch
) -> tuple[Session, asyncio.Event]:
    """A session whose engine waits for the event, and whose streams show life long before."""
    monkeypatch.setattr(delivery, "KEEP_ALIVE_S", 0.01)
    gate = asyncio.Event()
    proxy = await serve(ScriptedEngine(renderer, [step], gate=gate))
    return proxy.open_session("r", Sampling(), Budget()), gate


@pytest.mark.parametrize("path", BODIES)
async def test_a_slow_engine_keeps_the_stream_alive(
    path: str, renderer: Renderer, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, gate = await slow_session(serve, renderer, say("Late."), monkeypatch)
    sign = "event: ping" if path == "messages" else ": keep-alive"
    url = f"{opened.endpoint.host_url}/v1/{path}"
    async with (
        httpx.AsyncClient() as http,
        http.stream("POST", url, json={**BODIES[path], "stream": True}) as answer,
    ):
        lines = answer.aiter_lines()
        assert await anext(lines) == sign
        gate.set()
        rest = [line async for line in lines]
    assert any("Late." in line for line in rest)
    assert sign not in rest[-3:]


async def test_a_failure_in_a_chat_stream_is_the_clients_exception(
    renderer: Renderer, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, gate = await slow_session(serve, renderer, EngineError("the engine died"), monkeypatch)
    async with async_openai(opened) as client:
        stream = await client.chat.completions.create(model="policy", messages=ASK, stream=True)
        gate.set()
        with pytest.raises(openai.APIError, match="failed_engine"):
            async for _ in stream:
                pass
    assert "the engine died" in opened.close().error


async def test_a_failure_in_a_messages_stream_is_the_clients_exception(
    renderer: Renderer, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, gate = await slow_session(serve, renderer, EngineError("the engine died"), monkeypatch)
    async with (
        async_anthropic(opened) as client,
        client.messages.stream(model="policy", max_tokens=9, messages=ASK) as events,
    ):
        gate.set()
        with pytest.raises(anthropic.APIError, match="failed_engine"):
            await events.get_final_message()
    assert "the engine died" in opened.close().error


async def test_a_failure_in_a_responses_stream_is_a_failed_response(
    renderer: Renderer, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, gate = await slow_session(serve, renderer, EngineError("the engine died"), monkeypatch)
    async with async_openai(opened) as client, client.responses.stream(model="policy", input="x") as events:
        gate.set()
        told: Any = [event async for event in events]
    assert [event.type for event in told] == ["response.created", "response.failed"]
    assert told[-1].response.status == "failed"
    assert "failed_engine" in told[-1].response.error.message
    assert "the engine died" in opened.close().error
