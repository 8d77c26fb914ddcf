"""Whatever bytes arrive, the answer is an error of the dialect, and nothing is sampled or lost."""

from __future__ import annotations

import io
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_harness.proxy.dialects.body import read_json
from lego_harness.proxy.dialects.chat import ChatDialect
from lego_harness.proxy.dialects.messages import MessagesDialect
from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.render import Renderer
from tests.support.conversation import Talk
from tests.support.scripted_engine import ScriptedEngine, say

Begin = Callable[..., Awaitable[Talk]]
PATHS = ("/v1/chat/completions", "/v1/messages?beta=true")
OK = {"messages": [{"role": "user", "content": "x"}]}

BODIES: list[bytes] = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"\xff\xfe\x00",
    b"[" * 200_000,
    b'{"messages": NaN}',
    b'{"messages": [{"role": "user", "content": 1e999}]}',
    b"{}",
    b'{"messages": []}',
    b'{"messages": "x"}',
    b'{"messages": [1]}',
    b'{"messages": [{"content": "x"}]}',
    b'{"messages": [{"role": "king", "content": "x"}]}',
    b'{"messages": [{"role": "user", "content": 5}]}',
    b'{"messages": [{"role": "user", "content": [{"type": "video"}]}]}',
    b'{"messages": [{"role": "user", "content": [{"text": "x"}]}]}',
    b'{"messages": [{"role": "user", "content": "x"}], "stream": "perhaps"}',
    b'{"messages": [{"role": "user", "content": "x"}], "tools": {}}',
    b'{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "web_search", "name": "w"}]}',
]


def is_error(path: str, body: dict[str, Any]) -> bool:
    if "messages" in path:
        return body["type"] == "error" and isinstance(body["error"]["message"], str)
    return isinstance(body["error"]["message"], str) and isinstance(body["error"]["type"], str)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
async def test_a_malformed_body_is_refused_and_costs_nothing(
    path: str, body: bytes, talk: Begin, renderer: Renderer
) -> None:
    t = await talk(ScriptedEngine(renderer, [say("Hi.")]))
    async with t.http.post(t.url + path, data=body) as answer:
        assert answer.status == 400
        assert is_error(path, await answer.json())
    assert not t.session.ended.is_set()
    await t.turn()
    assert len(t.session.close().turns) == 1


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "", 200),
        ("HEAD", "", 200),
        ("GET", "/", 200),
        ("GET", "/v1/models", 200),
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/v1/messages", 405),
        ("GET", "/v1/responses/resp_x", 404),
        ("GET", "/../../etc/passwd", 401),
        ("POST", "x/v1/messages", 401),
        ("POST", "/v1/messages/batches", 404),
    ],
)
async def test_other_paths_and_methods(
    method: str, path: str, status: int, talk: Begin, renderer: Renderer
) -> None:
    t = await talk(ScriptedEngine(renderer, []))
    async with t.http.request(method, t.url + path) as answer:
        assert answer.status == status
        if status != 200:
            assert is_error(path, await answer.json())


@pytest.mark.parametrize("path", PATHS)
async def test_a_body_beyond_the_limit_is_refused(path: str, talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, []))
    async with t.http.post(t.url + path, data=io.BytesIO(b" " * (33 * 2**20))) as answer:
        assert answer.status == 413
        assert is_error(path, await answer.json())


async def test_a_body_that_lies_about_its_encoding_is_refused(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [say("Hi.")]))
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    async with t.http.post(t.url + PATHS[0], data=b"not gzip", headers=headers) as answer:
        assert 400 <= answer.status < 500
    await t.turn()


@pytest.mark.parametrize("secret", ["", "x", "x" * 43, "%00", "é", "..", "x" * 5000])
async def test_a_wrong_secret_learns_nothing(secret: str, talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, []))
    base = t.url.split("/rollout/")[0]
    async with (
        t.http.post(f"{base}/rollout/{secret}/v1/messages", json=OK) as answer,
        t.http.post(f"{base}/rollout/{secret}/v1/nothing", json=OK) as other,
    ):
        assert (answer.status, other.status) == (401, 401)
        assert (await answer.json())["error"]["message"] == (await other.json())["error"]["message"]


async def test_lone_surrogates_and_unknown_fields_are_harmless(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [say("Hi.")]))
    raw = rb'{"messages": [{"role": "user", "content": "\ud800x \ud83d\ude00", "weather": 1}], "stores": []}'
    async with t.http.post(t.url + PATHS[0], data=raw) as answer:
        assert answer.status == 200
    assert t.session.close().messages[0]["content"] == "\ufffdx 😀"


async def test_a_reader_that_stops_in_the_middle_leaves_the_session_usable(
    talk: Begin, renderer: Renderer
) -> None:
    t = await talk(ScriptedEngine(renderer, [say("Hi.", ("bash", {"command": "x" * 100}))]))
    async with aiohttp.ClientSession() as impatient:
        answer = await impatient.post(t.url + PATHS[0], json={**OK, "stream": True})
        await answer.content.read(1)
        answer.close()
    capture = t.session.close()
    assert (len(capture.turns), capture.stop) == (1, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "text",
        "tool_calls",
        "tool_call_id",
        "id",
        "function",
        "name",
        "arguments",
        "input",
        "tool_use_id",
        "thinking",
        "system",
        "tools",
        "stream",
        "input_schema",
        "parameters",
        "n",
        "stream_options",
    ]
)
WORDS = st.sampled_from(
    ["user", "assistant", "tool", "system", "text", "tool_use", "tool_result", "function", "image"]
)
NEARLY = st.recursive(
    JSON | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("dialect", [ChatDialect(), MessagesDialect()], ids=lambda d: d.name)
@given(
    body=st.dictionaries(FIELDS | st.just("messages"), NEARLY, max_size=5),
    messages=st.lists(NEARLY, max_size=4),
)
def test_any_json_is_a_request_or_a_refusal(dialect: Any, body: dict[str, Any], messages: list[Any]) -> None:
    with suppress(Refusal):
        request = dialect.fold(read_json(json.dumps({**body, "messages": messages}).encode()).value)
        assert len(request.fingerprint) == 64
        assert all(isinstance(message["content"], str) for message in request.messages)
