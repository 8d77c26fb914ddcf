"""How the server is reached: stdin and stdout, or HTTP on loopback behind a token.

Owns access. Invariants: it listens on loopback only; without the token nothing is answered; a browser's page on
another site is refused by its Origin, a rebound name by its Host (the `mcp` package checks both).
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import sys
from pathlib import Path
from typing import Any

from lego_control.mcp_import import starting
from lego_harness.errors import UsageError

MIN_TOKEN = 16


def serve_stdio(folder: Path, *, allow_control: bool) -> int:
    """Serve until stdin ends; the exit code."""
    with starting(without=("rich", "uvicorn")):
        from lego_control.server import build

        server = build(folder, allow_control=allow_control)
    asyncio.run(server.run_stdio_async())
    return 0


def serve_http(folder: Path, *, allow_control: bool, port: int, token_file: Path | None) -> int:
    """Serve until interrupted; returns the exit code. Raises UsageError for a bad token or a port in use."""
    token = _token(token_file)
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()  # a client that comes before the server is ready waits
    except OSError as error:
        listener.close()
        raise UsageError(f"--http {port}: cannot be listened on: {error.strerror}") from error
    with starting():
        import uvicorn

        from lego_control.server import build

        server = build(folder, allow_control=allow_control)
    app = Guarded(server.streamable_http_app(host="127.0.0.1"), token)
    with listener:
        sys.stderr.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
        if token_file is None:
            sys.stderr.write(f"Authorization: Bearer {token}\n")
        sys.stderr.flush()
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
    return 0


class Guarded:
    """An ASGI application that requires a bearer token."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._wanted):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)


def _token(file: Path | None) -> str:
    if file is None:
        return secrets.token_urlsafe(32)
    try:
        token = file.read_text(encoding="ascii").strip()
        is_private = file.stat().st_mode & 0o077 == 0
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {file}: cannot be read: {error}") from error
    if len(token) < MIN_TOKEN or not is_private:
        raise UsageError(
            f"--token-file {file}: expected at least {MIN_TOKEN} characters in a file that is yours alone (chmod 600)"
        )
    return token
