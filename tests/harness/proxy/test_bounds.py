"""What one harness may keep of the proxy, and what it cannot take from the others."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lego_harness.proxy import clients, sockets
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.dialects.body import MAX_PARTS
from lego_harness.proxy.render import Renderer
from lego_harness.proxy.session import Session
from lego_harness.types import Budget, Sampling
from tests.support.fuzz.raw_http import request
from tests.support.scripted_engine import ScriptedEngine, say

Serve = Callable[[ScriptedEngine], Awaitable[CaptureProxy]]
PATHS = {"/v1/chat/completions": "messages", "/v1/messages": "messages", "/v1/responses": "input"}
CHAT = "/v1/chat/completions"
DONE = say("Done.")


def opened(proxy: CaptureProxy, name: str = "r") -> Session:
    return proxy.open_session(name, Sampling(max_tokens=10**6), Budget(max_turns=1000, max_tokens=10**7))


def asking(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **fields}


async def post(
    http: aiohttp.ClientSession, session: Session, body: object, path: str = CHAT
) -> tuple[int, Any]:
    async with http.post(session.endpoint.host_url + path, json=body) as answer:
        return answer.status, await answer.json()


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0)


class Crowd:
    """Requests of one session, all different, sent at once."""

    def __init__(self, session: Session, num: int, path: str = CHAT) -> None:
        self._http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        bodies = [{PATHS[path]: [{"role": "user", "content": f"{i}"}]} for i in range(num)]
        self.calls = [asyncio.create_task(post(self._http, session, body, path)) for body in bodies]

    async def answers(self) -> list[tuple[int, Any]]:
        async with self._http:
            return await asyncio.gather(*self.calls)


# --- requests at once ----------------------------------------------------------------------------


async def test_requests_beyond_the_places_wait_their_turn_and_are_served(
    serve: Serve, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "NUM_PLACES", 2)
    gate = asyncio.Event()
    engine = ScriptedEngine(renderer, [DONE] * 9, gate=gate)
    proxy = await serve(engine)
    crowd = Crowd(opened(proxy), 8)
    await until(lambda: len(engine.requests) == 2)
    async with aiohttp.ClientSession() as http:
        other = asyncio.create_task(post(http, opened(proxy, "other"), asking("mine")))
        await until(lambda: len(engine.requests) == 3)  # another session has places of its own
        gate.set()
        assert (await other)[0] == 200
    assert [status for status, _ in await crowd.answers()] == [200] * 8
    assert len(engine.requests) == 9


@pytest.mark.parametrize("path", PATHS)
async def test_a_crowd_that_no_harness_has_is_refused_and_costs_nothing(
    path: str, serve: Serve, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "NUM_PLACES", 1)
    monkeypatch.setattr(clients, "MAX_WAITING", 2)
    gate = asyncio.Event()
    engine = ScriptedEngine(renderer, [DONE] * 3, gate=gate)
    session = opened(await serve(engine))
    crowd = Crowd(session, 8, path)
    await until(lambda: sum(call.done() for call in crowd.calls) == 5)
    gate.set()
    answers = await crowd.answers()
    assert sorted(status for status, _ in answers) == [200] * 3 + [429] * 5
    assert all("send fewer at once" in body["error"]["message"] for status, body in answers if status == 429)
    capture = session.close()
    assert (capture.stop, len(capture.turns)) == (None, 3)


# --- small things, many of them --------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("item", ["1,", "{},", '{"role":"user","content":[1,1,1,1,1]},'])
async def test_a_body_of_more_values_than_a_conversation_has_is_refused_unread(
    path: str, item: str, serve: Serve, renderer: Renderer
) -> None:
    session = opened(await serve(ScriptedEngine(renderer, [DONE])))
    items = item * (MAX_PARTS // item.count(",") + 1)
    raw = f'{{"{PATHS[path]}":[{items[:-1]}]}}'.encode()
    async with aiohttp.ClientSession() as http:
        async with http.post(session.endpoint.host_url + path, data=io.BytesIO(raw)) as answer:
            assert answer.status == 413
            assert "values" in (await answer.json())["error"]["message"]
        assert (await post(http, session, asking("x")))[0] == 200


# --- clients that stall --------------------------------------------------------------------------


async def test_a_body_that_does_not_arrive_frees_its_place(
    serve: Serve, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "NUM_PLACES", 1)
    monkeypatch.setattr(clients, "BODY_S", 0.01)
    session = opened(await serve(ScriptedEngine(renderer, [DONE])))
    reader, writer = await asyncio.open_unix_connection(session.endpoint.socket)
    writer.write(request("POST", session.endpoint.path + CHAT, json.dumps(asking("x")).encode())[:-5])
    assert b" 408 " in await reader.readline()
    async with aiohttp.ClientSession() as http:
        assert (await post(http, session, asking("x")))[0] == 200
    writer.close()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_reader_that_stops_frees_its_place_and_its_reply_is_kept(
    stream: bool, serve: Serve, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "NUM_PLACES", 1)
    monkeypatch.setattr(clients, "UNREAD_S", 0.01)
    patient = Renderer.load(model_dir, max_model_len=10**6)
    long = say("a word " * 100_000)
    session = opened(await serve(ScriptedEngine(patient, [long, DONE])))
    _, writer = await asyncio.open_unix_connection(session.endpoint.socket, limit=1)
    raw = json.dumps(asking("x", stream=stream)).encode()
    writer.write(request("POST", session.endpoint.path + CHAT, raw))
    async with aiohttp.ClientSession() as http:
        assert (await post(http, session, asking("y")))[1]["choices"][0]["message"]["content"] == "Done."
        monkeypatch.undo()  # this one reads, however busy the machine is
        again = (await post(http, session, asking("x")))[1]
    assert again["choices"][0]["message"]["content"] == long["content"]
    writer.close()
    assert len(session.close().turns) == 2


# --- headers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [{"x-long": "y" * 100_000}, {f"x-{i}": "y" for i in range(2000)}, {"y" * 100_000: "x"}],
    ids=["long value", "many", "long name"],
)
async def test_headers_are_bounded(headers: dict[str, str], serve: Serve, renderer: Renderer) -> None:
    session = opened(await serve(ScriptedEngine(renderer, [DONE])))
    reader, writer = await asyncio.open_unix_connection(session.endpoint.socket)
    writer.write(request("POST", session.endpoint.path + CHAT, json.dumps(asking("x")).encode(), **headers))
    assert b" 400 " in await reader.readline()
    writer.close()
    async with aiohttp.ClientSession() as http:
        assert (await post(http, session, asking("x")))[0] == 200


# --- connections ---------------------------------------------------------------------------------


async def test_idle_connections_make_room_for_new_ones(
    serve: Serve, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "MAX_CONNECTIONS", 4)
    session = opened(await serve(ScriptedEngine(renderer, [DONE])))
    idle = [await asyncio.open_unix_connection(session.endpoint.socket) for _ in range(20)]
    async with aiohttp.ClientSession() as http:
        assert (await post(http, session, asking("x")))[0] == 200
    for reader, writer in idle[:16]:
        assert await reader.read() == b""
        writer.close()
    for _, writer in idle[16:]:
        writer.close()


async def test_connections_that_work_are_never_dropped(
    serve: Serve, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "MAX_CONNECTIONS", 4)
    gate = asyncio.Event()
    engine = ScriptedEngine(renderer, [DONE] * 5, gate=gate)
    session = opened(await serve(engine))
    crowd = Crowd(session, 4)
    await until(lambda: len(engine.requests) == 4)
    reader, writer = await asyncio.open_unix_connection(session.endpoint.socket)
    assert await reader.read() == b""
    writer.close()
    gate.set()
    assert [status for status, _ in await crowd.answers()] == [200] * 4
    async with aiohttp.ClientSession() as http:
        assert (await post(http, session, asking("x")))[0] == 200
