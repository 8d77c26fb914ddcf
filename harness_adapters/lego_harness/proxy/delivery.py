"""Replies and errors on their way out, and whether they arrived.

Owns what is written to a client. Invariant: a reply counts as delivered only after its last byte
was handed to an open connection; until then the session keeps it for a retry. A stream begins when
the whole reply is known, or with keep-alive events when that takes long, so that most errors still
get a status of their own.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from lego_harness.proxy.clients import reader_of
from lego_harness.proxy.conversation import Reply, Request
from lego_harness.proxy.dialects.base import Dialect
from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.session import Session
from lego_harness.proxy.strict_json import encode

KEEP_ALIVE_S = 10.0
STREAM_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}


async def deliver(
    http: web.Request, session: Session, dialect: Dialect, request: Request
) -> web.StreamResponse:
    """Answer one request to its last byte; raises Refusal while a status can still be sent."""
    async with session.exchange(request):
        respond = _stream if request.stream else _whole
        response, reply = await respond(http, session, dialect, request)
        async with reader_of(http):
            await response.write_eof()
        if reply is not None and http.transport is not None and not http.transport.is_closing():
            session.delivered(request)
        return response


def json_response(body: object, status: int = 200) -> web.Response:
    """A JSON answer."""
    return web.Response(body=encode(body).encode(), status=status, content_type="application/json")


def error_response(dialect: Dialect, refusal: Refusal) -> web.Response:
    """An error of the dialect."""
    return json_response(dialect.error(refusal), refusal.status)


async def _whole(
    http: web.Request, session: Session, dialect: Dialect, request: Request
) -> tuple[web.StreamResponse, Reply | None]:
    reply = await session.answer(request)
    response = json_response(dialect.unfold(reply))
    await response.prepare(http)
    return response, reply


async def _stream(
    http: web.Request, session: Session, dialect: Dialect, request: Request
) -> tuple[web.StreamResponse, Reply | None]:
    response = web.StreamResponse(headers=STREAM_HEADERS)
    answer = asyncio.ensure_future(session.answer(request))
    try:
        await _wait(http, response, dialect, answer)
        reply = await answer
    except Refusal as refusal:
        if not response.prepared:
            raise
        await _write(http, response, dialect.error_event(refusal))
        return response, None
    finally:
        if not answer.done():  # the client vanished while the engine worked: free it
            answer.cancel()
            await asyncio.wait({answer})
        _ = answer.cancelled() or answer.exception()  # known now, even where nobody is left to be told
    await _write(http, response, b"".join(dialect.events(reply, include_usage=request.include_usage)))
    return response, reply


async def _write(http: web.Request, response: web.StreamResponse, events: bytes) -> None:
    async with reader_of(http):
        if not response.prepared:
            await response.prepare(http)
        await response.write(events)


async def _wait(
    http: web.Request, response: web.StreamResponse, dialect: Dialect, answer: asyncio.Future[Reply]
) -> None:
    """Until the answer is there, with a sign of life now and then."""
    while not (await asyncio.wait({answer}, timeout=KEEP_ALIVE_S))[0]:
        await _write(http, response, dialect.keep_alive())
