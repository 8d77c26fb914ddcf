"""How much of us one harness may keep: bounds on what comes in and on what is not taken.

    requests of a session at once     NUM_PLACES are served, further ones wait their turn unread, and are served
                                      in the order they came: a harness changes its transcript after an error
    more than MAX_WAITING waiting     429: no harness has so many calls; whoever sends them loses his own
    a body beyond MAX_BODY_BYTES      413, as for one of more values than any conversation has (`dialects/body.py`)
    a body that does not arrive       408 after BODY_S
    an answer that is not read        the connection is dropped after UNREAD_S; its reply is kept for a retry

Owns these bounds. Invariant: a client that stalls frees its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web

from lego_harness.proxy.refusal import Refusal

NUM_PLACES = 16
"""More than any harness runs sub-agents side by side."""
MAX_WAITING = 256
MAX_BODY_BYTES = 32 * 2**20
BODY_S = UNREAD_S = 120.0

BODY = web.RequestKey("body", bytes)
"""Under which a request keeps its body once it has come."""


class Places:
    """Those of one session."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(NUM_PLACES)
        self._num_waiting = 0

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None]:
        """Held from before a request's body is read until its answer was taken; raises Refusal."""
        if self._num_waiting >= MAX_WAITING:
            raise Refusal(
                f"{MAX_WAITING} requests of this rollout are waiting already; send fewer at once",
                HTTPStatus.TOO_MANY_REQUESTS,
            )
        self._num_waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._num_waiting -= 1
        try:
            yield
        finally:
            self._free.release()


async def body_of(http: web.Request) -> bytes:
    """The whole body, unpacked; raises Refusal where it does not come or is too large."""
    try:
        async with asyncio.timeout(BODY_S):
            http[BODY] = b"".join([chunk async for chunk in _chunks(http)])
            return http[BODY]
    except TimeoutError as error:
        raise Refusal(f"the body did not arrive within {BODY_S:g} s", HTTPStatus.REQUEST_TIMEOUT) from error


async def _chunks(http: web.Request) -> AsyncGenerator[bytes]:
    """As they come: histories are long, and `http.read` copies them more often."""
    num_bytes = 0
    while chunk := await http.content.readany():
        num_bytes += len(chunk)
        if num_bytes > MAX_BODY_BYTES:
            raise Refusal(
                f"the body is larger than {MAX_BODY_BYTES} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            )
        yield chunk


@asynccontextmanager
async def reader_of(http: web.Request) -> AsyncGenerator[None]:
    """Around a write: raises ConnectionResetError, the connection dropped, where it is not taken."""
    try:
        async with asyncio.timeout(UNREAD_S):
            yield
    except TimeoutError as error:
        if http.transport is not None:
            http.transport.abort()
        raise ConnectionResetError(f"nothing was read for {UNREAD_S:g} s") from error
