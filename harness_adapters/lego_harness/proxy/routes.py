"""What is served at which path below a rollout's secret, and in which dialect.

    [/v1]/chat/completions        POST         OpenAI Chat Completions
    [/v1]/messages                POST         Anthropic Messages
    [/v1]/messages/count_tokens   POST
    [/v1]/responses               POST         OpenAI Responses
    [/v1]/responses/input_tokens  POST
    [/v1]/models, …/models/<id>   GET, HEAD    any name is the policy's
    /                             GET, HEAD    a sign of life

Owns this table; everything else is refused in the dialect of the path. Opens no session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from aiohttp import web

from lego_harness.proxy.caller import caller_of
from lego_harness.proxy.clients import body_of
from lego_harness.proxy.delivery import deliver, json_response
from lego_harness.proxy.dialects.base import MAX_NAME, Dialect
from lego_harness.proxy.dialects.chat import ChatDialect
from lego_harness.proxy.dialects.messages import MessagesDialect
from lego_harness.proxy.dialects.responses import NO_SUMMARY, ResponsesDialect
from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.session import Session

MODEL = "policy"
CHAT, MESSAGES, RESPONSES = ChatDialect(), MessagesDialect(), ResponsesDialect()
DIALECTS: Mapping[str, Dialect] = {
    "/chat/completions": CHAT,
    "/messages": MESSAGES,
    "/responses": RESPONSES,
}

Handler = Callable[[web.Request, Session, Dialect], Awaitable[web.StreamResponse]]


def dialect_of(tail: str, headers: Mapping[str, str]) -> Dialect:
    """The dialect that whoever asks for this path expects an answer in; headers tell where the path does
    not: clients of several vendors send each their own to all."""
    for part, dialect in DIALECTS.items():
        if part in tail:
            return dialect
    return MESSAGES if "anthropic-version" in headers else CHAT


def handler(method: str, tail: str) -> Handler:
    """Who answers; raises Refusal."""
    path = _path(tail)
    handlers = MODEL_ROUTE if path.startswith("/models/") else ROUTES.get(path)
    if path == "/responses/compact":
        raise Refusal(f"{path} {NO_SUMMARY}", HTTPStatus.NOT_FOUND)
    if handlers is None and path.startswith("/responses/"):
        raise Refusal("nothing is stored here; responses are only created", HTTPStatus.NOT_FOUND)
    if handlers is None:
        raise Refusal(f"nothing is served at {tail[:MAX_NAME]}", HTTPStatus.NOT_FOUND)
    if method not in handlers:
        raise Refusal(f"{method} is not served at {tail[:MAX_NAME]}", HTTPStatus.METHOD_NOT_ALLOWED)
    return handlers[method]


def _path(tail: str) -> str:
    path = tail.rstrip("/")
    return path.removeprefix("/v1") if path.startswith("/v1/") else path


async def _complete(http: web.Request, session: Session, dialect: Dialect) -> web.StreamResponse:
    async with session.places.one():
        request = session.reader.read(dialect, await body_of(http))
        return await deliver(http, session, dialect, replace(request, caller=caller_of(http.headers)))


async def _count_tokens(http: web.Request, session: Session, dialect: Dialect) -> web.StreamResponse:
    async with session.places.one():
        num_tokens = session.count_tokens(session.reader.read(dialect, await body_of(http)))
    kind = {"object": "response.input_tokens"} if dialect is RESPONSES else {}
    return json_response({**kind, "input_tokens": num_tokens})


async def _models(http: web.Request, session: Session, dialect: Dialect) -> web.StreamResponse:
    page = {"has_more": False, "first_id": MODEL, "last_id": MODEL}
    return json_response({"object": "list", "data": [_described(MODEL)], **page})


async def _model(http: web.Request, session: Session, dialect: Dialect) -> web.StreamResponse:
    name = _path(http.match_info["tail"]).removeprefix("/models/")
    return json_response(_described(name[:MAX_NAME]))


def _described(name: str) -> dict[str, Any]:
    """A model as the clients of all dialects read it."""
    openai = {"id": name, "object": "model", "created": 0, "owned_by": "lego"}
    anthropic = {"type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
    return {**openai, **anthropic, "lifecycle": "active"}


async def _greet(http: web.Request, session: Session, dialect: Dialect) -> web.StreamResponse:
    return json_response({"status": "ok"})


ROUTES: dict[str, dict[str, Handler]] = {
    "": {"GET": _greet, "HEAD": _greet},
    "/v1": {"GET": _greet, "HEAD": _greet},
    "/chat/completions": {"POST": _complete},
    "/messages": {"POST": _complete},
    "/messages/count_tokens": {"POST": _count_tokens},
    "/responses": {"POST": _complete},
    "/responses/input_tokens": {"POST": _count_tokens},
    "/models": {"GET": _models, "HEAD": _models},
}
MODEL_ROUTE: dict[str, Handler] = {"GET": _model, "HEAD": _model}
