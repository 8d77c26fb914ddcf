"""Listens to a proxy's requests and answers, and can break an answer off.

Owns no socket: a proxy calls it when an answer begins. Invariant: what it recorded are the bytes that were
written, in order; an answer that is broken off counts as not delivered. Changes nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from lego_harness.proxy.clients import BODY


@dataclass(kw_only=True, slots=True, eq=False)
class Heard:
    """One exchange on the wire."""

    method: str
    path: str
    """As it was sent, with its query."""
    headers: list[tuple[str, str]]
    body: bytes
    status: int
    is_stream: bool
    written: bytearray = field(default_factory=bytearray)
    is_over: bool = False
    """The answer was written to its end."""


class Tap:
    """To be given to a proxy."""

    def __init__(self, on_answer: Callable[[Heard], None]) -> None:
        self.breaks_off = False
        """Whether answers that begin now are kept from the client."""
        self._on_answer = on_answer

    async def __call__(self, request: web.Request, response: web.StreamResponse) -> None:
        """An answer begins."""
        heard = Heard(
            method=request.method,
            path=request.raw_path,
            headers=list(request.headers.items()),
            body=request.get(BODY, b""),  # none of one that is refused unread
            status=response.status,
            is_stream=not isinstance(response, web.Response),
        )
        if isinstance(response, web.Response) and isinstance(response.body, bytes):
            heard.written += response.body
        self._on_answer(heard)
        _listen(request, response, heard, self.breaks_off)


def _listen(request: web.Request, response: web.StreamResponse, heard: Heard, breaks_off: bool) -> None:
    write, write_eof = response.write, response.write_eof

    async def heard_write(data: bytes | bytearray | memoryview) -> None:
        heard.written += data
        if not breaks_off:
            await write(data)

    async def heard_eof(data: bytes = b"") -> None:
        if breaks_off and request.transport is not None:
            request.transport.abort()
            await asyncio.Event().wait()  # the server cancels the answer to a client that is gone
        await write_eof(data)
        heard.is_over = True

    response.write, response.write_eof = heard_write, heard_eof
