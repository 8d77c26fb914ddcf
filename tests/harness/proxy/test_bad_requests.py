"""Whatever bytes arrive, the answer is an error of the dialect, and nothing is sampled or lost."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_harness.errors import UsageError
from lego_harness.proxy.dialects.base import Dialect
from lego_harness.proxy.dialects.chat import ChatDialect
from lego_harness.proxy.dialects.messages import MessagesDialect
from lego_harness.proxy.dialects.reader import Reader
from lego_harness.proxy.dialects.responses import ResponsesDialect
from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.render import Renderer
from tests.support.conversation import Talk
from tests.support.official_clients import async_anthropic, async_openai
from tests.support.scripted_engine import ScriptedEngine, say
from tests.support.wire_bodies import bodies

Begin = Callable[..., Awaitable[Talk]]
CHAT, MESSAGES, RESPONSES = ChatDialect(), MessagesDialect(), ResponsesDialect()
PATHS = {"/v1/chat/completions": CHAT, "/v1/messages?beta=true": MESSAGES, "/v1/responses": RESPONSES}
OK = {"messages": [{"role": "user", "content": "x"}]}
DEEP = b'{"a":' * 150 + b"1" + b"}" * 150

BODIES: list[bytes] = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"{} {}",
    b"\xff\xfe\x00",
    b'{"LIST": [{"role": "user", "content": "\xed\xa0\x80"}]}',
    b"[" * 200_000,
    b'{"LIST": NaN}',
    b'{"LIST": [{"role": "user", "content": 1e999}]}',
    b'{"LIST": [{"role": "user", "content": ' + b"9" * 5000 + b"}]}",
    b'{"LIST": [{"role": "user", "content": "a\nb"}]}',
    b'{"LIST": [{"role": "user", "content": "x"},]}',
    b'{"LIST": [{"role": "user", "content": "x"}]',
    b'{"LIST": [{"role": "user", "content": "x"}], LIST: 1}',
    b"{}",
    b'{"LIST": []}',
    b'{"LIST": 5}',
    b'{"LIST": {"role": "user", "content": "x"}}',
    b'{"LIST": [1]}',
    b'{"LIST": [null]}',
    b'{"LIST": [{"content": "x"}]}',
    b'{"LIST": [{"role": "king", "content": "x"}]}',
    b'{"LIST": [{"role": "user", "content": 5}]}',
    b'{"LIST": [{"role": "user", "content": [{"type": "video"}]}]}',
    b'{"LIST": [{"role": "user", "content": [{"text": "x"}]}]}',
    b'{"LIST": [{"role": "user", "content": "x"}], "stream": "perhaps"}',
    b'{"LIST": [{"role": "user", "content": "x"}], "model": 5}',
    b'{"LIST": [{"role": "user", "content": "x"}], "tools": {}}',
    b'{"LIST": [{"role": "user", "content": "x"}], "tools": [5]}',
    b'{"LIST": [{"role": "user", "content": "x"}], "tools": [{"type": "computer", "name": "w"}]}',
    b'{"LIST": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "name": "f", '
    b'"function": {"name": "f", "parameters": DEEP}, "parameters": DEEP, "input_schema": DEEP}]}',
    b'{"LIST": [{"role": "user", "content": "x"}], "LIST": [{"role": "user", "content": 5}]}',
]


def spoken(body: bytes, dialect: Dialect) -> bytes:
    return body.replace(b"LIST", dialect.grows.encode()).replace(b"DEEP", DEEP)


def is_error(path: str, body: dict[str, Any]) -> bool:
    if "messages" in path:
        return body["type"] == "error" and isinstance(body["error"]["message"], str)
    return isinstance(body["error"]["message"], str) and isinstance(body["error"]["type"], str)


@pytest.mark.parametrize("path", PATHS)
async def test_malformed_bodies_are_refused_and_cost_nothing(
    path: str, talk: Begin, renderer: Renderer
) -> None:
    t = await talk(ScriptedEngine(renderer, [say("Hi.")]))
    for body in BODIES:
        async with t.http.post(t.url + path, data=spoken(body, PATHS[path])) as answer:
            assert (answer.status, body) == (400, body)
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
        ("GET", "/v1", 200),
        ("GET", "/v1/models", 200),
        ("GET", "/models/x/y", 200),
        ("POST", "/v1/models", 405),
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/v1/messages", 405),
        ("GET", "/v1/responses", 405),
        ("GET", "/v1/responses/resp_x", 404),
        ("POST", "/v1/responses/compact", 404),
        ("GET", "/../../etc/passwd", 401),
        ("POST", "x/v1/messages", 401),
        ("POST", "/v1/messages/batches", 404),
        ("POST", "/v1/completions", 404),
        ("POST", "/v1/v1/messages", 404),
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
    large = b" " * (50 * 2**20)
    for data, headers in ((large, {}), (gzip.compress(large, 1), {"Content-Encoding": "gzip"})):
        async with t.http.post(t.url + path, data=io.BytesIO(data), headers=headers) as answer:
            assert answer.status == 413
            assert is_error(path, await answer.json())


async def test_the_official_clients_learn_that_a_body_is_too_large(session: Any) -> None:
    opened = await session()
    large = "x" * (50 * 2**20)
    async with async_openai(opened) as client, async_anthropic(opened) as other:
        with pytest.raises(openai.APIStatusError) as caught:
            await client.responses.create(model="policy", input=large)
        assert caught.value.status_code == 413
        with pytest.raises(anthropic.APIStatusError) as refused:
            await other.messages.create(
                model="policy", max_tokens=9, messages=[{"role": "user", "content": large}]
            )
        assert (refused.value.status_code, refused.value.type) == (413, "request_too_large")


async def test_a_body_that_lies_about_its_encoding_is_refused(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [say("Hi.")]))
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    async with t.http.post(t.url + "/v1/messages", data=b"not gzip", headers=headers) as answer:
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
    async with t.http.post(t.url + "/v1/chat/completions", data=raw) as answer:
        assert answer.status == 200
    assert t.session.close().messages[0]["content"] == "\ufffdx 😀"


async def test_of_duplicate_keys_the_last_one_counts(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [say("Hi.")]))
    raw = b'{"messages": 5, "messages": [{"role": "user", "content": "x", "content": "y"}]}'
    async with t.http.post(t.url + "/v1/chat/completions", data=raw) as answer:
        assert answer.status == 200
    assert t.session.close().messages[0]["content"] == "y"


@pytest.mark.parametrize(
    "arguments", ["{", "NaN", '{"x": NaN}', '{"x": 1e999}', DEEP.decode(), '"x"', "", "[]"]
)
async def test_arguments_that_are_no_json_object_are_kept_as_they_are(
    arguments: str, talk: Begin, renderer: Renderer
) -> None:
    t = await talk(ScriptedEngine(renderer, [say("Hi.")]))
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    t.messages += [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": ""},
    ]
    await t.turn()
    kept = t.session.close().messages[2]["tool_calls"][0]["function"]["arguments"]
    assert kept == (arguments or {})


async def test_lone_surrogates_in_arguments_are_replaced(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [say("Hi.")]))
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": "\\ud800"}'}}
    t.messages += [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": ""},
    ]
    await t.turn()
    assert t.session.close().messages[2]["tool_calls"][0]["function"]["arguments"] == {"x": "\ufffd"}


async def test_what_a_harness_asks_for_is_recorded_in_bounds(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [say("Hi.")]))
    deep = json.loads(DEEP)
    status, _ = await t.post(temperature=0.5, stop="x" * 10_000, response_format=deep, model="m" * 10_000)
    assert status == 200
    (asked,) = t.session.close().asked
    assert asked["temperature"] == 0.5
    assert all(len(str(value)) < 3000 for value in asked.values())


async def test_a_reader_that_stops_in_the_middle_leaves_the_session_usable(
    talk: Begin, renderer: Renderer
) -> None:
    t = await talk(ScriptedEngine(renderer, [say("Hi.", ("bash", {"command": "x" * 100}))]))
    async with aiohttp.ClientSession() as impatient:
        answer = await impatient.post(t.url + "/v1/chat/completions", json={**OK, "stream": True})
        await answer.content.read(1)
        answer.close()
    capture = t.session.close()
    assert (len(capture.turns), capture.stop) == (1, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = (
    "role content type text tool_calls tool_call_id id function name arguments input tool_use_id thinking system "
    "tools stream input_schema parameters n stream_options call_id output summary namespace format instructions"
)
VALUES = (
    "user assistant tool system developer text tool_use tool_result function image thinking message reasoning "
    "function_call function_call_output custom_tool_call custom namespace additional_tools input_text output_text"
)
NEARLY = st.recursive(
    JSON | st.sampled_from(VALUES.split()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=4)
    ),
    max_leaves=12,
)


def changed(value: Any, draw: Any) -> Any:
    """The value with one part of it, somewhere, replaced or left out."""
    if not value or not isinstance(value, (dict, list)) or not draw(st.integers(0, 3)):
        return draw(NEARLY)
    if isinstance(value, list):
        at = draw(st.integers(0, len(value) - 1))
        return [changed(item, draw) if i == at else item for i, item in enumerate(value)]
    at = draw(st.sampled_from(sorted(value)))
    if not draw(st.integers(0, 3)):
        return {key: item for key, item in value.items() if key != at}
    return {key: changed(item, draw) if key == at else item for key, item in value.items()}


@settings(max_examples=60)
@pytest.mark.parametrize("dialect", PATHS.values(), ids=lambda d: d.name)
@given(data=st.data())
def test_any_json_is_a_request_that_can_be_shown_or_a_refusal(
    dialect: Dialect, data: st.DataObject, renderer: Renderer
) -> None:
    reader = Reader()
    body: Any = data.draw(bodies(dialect))[0]
    for _ in range(3):
        with suppress(Refusal):
            request = reader.read(dialect, json.dumps(body).encode())
            assert len(request.fingerprint) == 64
            assert all(isinstance(message["content"], str) for message in request.messages)
            json.dumps(request.asked).encode()
            with suppress(UsageError):
                assert renderer.render(request.messages, request.tools)
        body = changed(body, data.draw)
