"""The proxy's sockets, and how many connections come through them.

Owns the listeners. Invariant: connections never take the file descriptors that route logs, sandboxes and
other rollouts need. Where there are too many, those make room that have no request, the first ones first,
which harms no harness: it opens another. Where all have one, the new connection is closed. Reads nothing.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web

MAX_CONNECTIONS = 4096


class Sockets:
    """Loopback and a unix socket in front of one server."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._working: set[asyncio.BaseProtocol] = set()
        self._limit = min(MAX_CONNECTIONS, _max_files() // 2)
        self._listening: list[asyncio.Server] = []

    async def listen(self, listener: socket.socket, path: Path) -> None:
        """Serve on both. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._listening.append(await loop.create_server(self._accept, sock=listener))
        self._listening.append(await loop.create_unix_server(self._accept, path))

    def close(self) -> None:
        """Let nobody in any more."""
        for listening in self._listening:
            listening.close()

    @contextmanager
    def working(self, http: web.Request) -> Generator[None]:
        """Held while a request is served: its connection stays."""
        self._working.add(http.protocol)
        try:
            yield
        finally:
            self._working.discard(http.protocol)

    def _accept(self) -> asyncio.BaseProtocol:
        there = [one for one in self._server.connections if one.transport and not one.transport.is_closing()]
        too_many = len(there) + 1 - self._limit
        idle = [one for one in there if one not in self._working]
        if too_many > len(idle):
            return _TurnedAway()
        for one in idle[: max(too_many, 0)]:
            if one.transport:
                one.transport.abort()
        return self._server()


class _TurnedAway(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _max_files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2 * MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else soft
