"""A client that may send any bytes: HTTP by hand, so that a test decides what is broken in it.

Owns one connection to the proxy. Invariant: whatever comes back is either a whole answer, or the end of
the connection (None); waiting longer than `PATIENCE_S` is a hang and fails the test.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

PATIENCE_S = 60.0
LIMIT = 2**20
RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_whole: bool = True
    """False where the connection ended before the body did."""

    def json(self) -> Any:
        return json.loads(self.body)


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of a proper request; underscores in header names stand for dashes."""
    fields = {
        "Host": "proxy",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **headers,
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{k.replace('_', '-')}: {v}" for k, v in fields.items())]
    return "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body


class RawConnection:
    """One connection; `close` ends it politely, `reset` does not."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, raw: bytes) -> None:
        """Hand the bytes to the connection, which is opened when there is none."""
        if self._writer is None or self._writer.is_closing():
            await self.close()
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=LIMIT)
        with suppress(ConnectionError):
            self._writer.write(raw)
            await asyncio.wait_for(self._writer.drain(), PATIENCE_S)

    async def answer(self, *, is_head: bool = False) -> Answer | None:
        """The next answer."""
        try:
            return await asyncio.wait_for(self._answer(is_head=is_head), PATIENCE_S)
        except (ConnectionError, asyncio.IncompleteReadError):
            await self.close()
            return None

    async def ask(self, raw: bytes, *, is_head: bool = False) -> Answer | None:
        """Send bytes and wait for an answer; a kept connection that had ended is opened anew."""
        await self.send(raw)
        return await self.answer(is_head=is_head)

    async def read_some(self, num_bytes: int) -> bytes:
        """At most that many bytes of whatever comes."""
        assert self._reader is not None
        with suppress(ConnectionError):
            return await asyncio.wait_for(self._reader.read(num_bytes), PATIENCE_S)
        return b""

    def end_of_sending(self) -> None:
        """Nothing more will be sent; answers may still come."""
        if self._writer is not None and self._writer.can_write_eof():
            with suppress(OSError):
                self._writer.write_eof()

    def reset(self) -> None:
        """Vanish without a word."""
        if self._writer is not None:
            sock = self._writer.get_extra_info("socket")
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()
        self._reader = self._writer = None

    async def _answer(self, *, is_head: bool) -> Answer:
        assert self._reader is not None
        status, headers = await self._head()
        while status == 100:
            status, headers = await self._head()
        if is_head or status in (204, 304):
            return Answer(status=status, headers=headers, body=b"")
        body, is_whole = await self._body(headers)
        if headers.get("connection", "").lower() == "close" or not is_whole:
            await self.close()
        return Answer(status=status, headers=headers, body=body, is_whole=is_whole)

    async def _head(self) -> tuple[int, dict[str, str]]:
        assert self._reader is not None
        raw = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").split("\r\n")
        version, status, *_ = first.split(" ")
        assert version.startswith("HTTP/1."), raw
        fields = (line.partition(":") for line in lines if line)
        return int(status), {name.strip().lower(): value.strip() for name, _, value in fields}

    async def _body(self, headers: Mapping[str, str]) -> tuple[bytes, bool]:
        assert self._reader is not None
        if headers.get("transfer-encoding") == "chunked":
            return await self._chunks()
        if "content-length" in headers:
            return await self._reader.readexactly(int(headers["content-length"])), True
        return await self._reader.read(), True

    async def _chunks(self) -> tuple[bytes, bool]:
        assert self._reader is not None
        body = b""
        try:
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                body += await self._reader.readexactly(size)
                await self._reader.readexactly(2)
            await self._reader.readuntil(b"\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return body, False
        return body, True
