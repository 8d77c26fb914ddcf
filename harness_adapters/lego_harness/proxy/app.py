"""The capture proxy: one HTTP server per rollout worker, on loopback and on a unix socket.

    /rollout/<secret>/…    what `routes.py` serves

Owns the server and the table of secrets. Invariants: a secret opens one session and no other; a
wrong one learns nothing, not even by timing; every answer is a success or an error of the dialect,
never a 5xx. Keeps no tokens.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from lego_harness.adapters.base import Endpoint
from lego_harness.proxy.delivery import error_response
from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.render import Renderer
from lego_harness.proxy.route_log import RouteLog
from lego_harness.proxy.routes import CHAT, MODEL, dialect_of, handler
from lego_harness.proxy.session import Session
from lego_harness.proxy.sockets import Sockets
from lego_harness.proxy.upstream import Engine
from lego_harness.types import Budget, Sampling, StopReason

log = logging.getLogger(__name__)

SHUTDOWN_S = 1.0

Tap = Callable[[web.Request, web.StreamResponse], Awaitable[None]]
"""Told of every answer that begins."""


class CaptureProxy:
    """Serves the sessions of one rollout worker from `start` to `close`."""

    def __init__(
        self,
        engine: Engine,
        renderer: Renderer,
        *,
        socket_dir: Path,
        tap: Tap | None = None,
        on_unknown: Callable[[str], None] | None = None,
    ) -> None:
        """`on_unknown` is told of a secret that opens nothing, and may open a session for it."""
        self._engine, self._renderer, self._tap, self._on_unknown = engine, renderer, tap, on_unknown
        self._folder, self._socket_path = socket_dir, socket_dir / "proxy.sock"
        self._sessions: dict[bytes, Session] = {}  # by digest: look-up time says nothing of a secret
        self._runner: web.AppRunner | None = None
        self._sockets: Sockets | None = None
        self._address = ""

    async def start(self, *, port: int = 0) -> None:
        """Listen. Raises OSError when the socket directory or the port cannot be used; `close` then
        tidies up."""
        app = web.Application()
        app.router.add_route("*", "/rollout/{secret}{tail:/?.*}", self._serve)
        app.router.add_route("*", "/{tail:.*}", self._nothing_here)
        if self._tap is not None:
            app.on_response_prepare.append(self._tap)
        quiet = logging.getLogger(f"{__name__}.http")
        quiet.setLevel(logging.CRITICAL)  # what clients do wrong is answered; it must not fill the disk too
        self._runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, logger=quiet, shutdown_timeout=SHUTDOWN_S
        )
        await self._runner.setup()
        assert self._runner.server is not None
        self._sockets = Sockets(self._runner.server)
        listener = socket.create_server(("127.0.0.1", port))
        await self._sockets.listen(listener, self._socket_path)
        self._socket_path.chmod(0o666)  # sandboxes may run as another user; the secret protects
        self._address = f"http://127.0.0.1:{listener.getsockname()[1]}"

    async def close(self) -> None:
        """End every open session and stop listening."""
        for session in list(self._sessions.values()):
            session.end(StopReason.CANCELLED, "the proxy was closed")
            session.close()
        if self._sockets is not None:
            self._sockets.close()
        if self._runner is not None:
            await self._runner.cleanup()
        self._socket_path.unlink(missing_ok=True)

    def open_session(
        self, rollout_id: str, sampling: Sampling, budget: Budget, *, secret: str = ""
    ) -> Session:
        """A session with a secret of its own, ready for a harness. Needs a started proxy."""
        secret = secret or secrets.token_urlsafe(32)
        key, path = _digest(secret), f"/rollout/{secret}"
        session = Session(
            rollout_id=rollout_id,
            endpoint=Endpoint(
                host_url=self._address + path, socket=self._socket_path, path=path, model=MODEL
            ),
            engine=self._engine,
            renderer=self._renderer,
            sampling=sampling,
            budget=budget,
            route_log=RouteLog(self._folder / f"{key.hex()}.routes"),
            on_close=lambda: self._sessions.__delitem__(key),
        )
        self._sessions[key] = session
        return session

    # --- requests --------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        tail = request.match_info["tail"]
        dialect = dialect_of(tail, request.headers)
        session = self._session(request.match_info["secret"])
        if session is None:
            return error_response(dialect, Refusal("no rollout has this address", HTTPStatus.UNAUTHORIZED))
        assert self._sockets is not None
        try:
            with self._sockets.working(request):
                return await handler(request.method, tail)(request, session, dialect)
        except Refusal as refusal:
            return error_response(dialect, refusal)
        except web.RequestPayloadError as error:
            response = error_response(dialect, Refusal(f"the body cannot be decoded: {str(error)[:200]}"))
            response.force_close()  # where the next request would begin is unknown
            return response
        except web.HTTPException as error:
            return error_response(dialect, Refusal(f"{error.reason}", HTTPStatus(error.status)))
        except ConnectionError:
            log.info("%s: the client went away", session.rollout_id)
            raise
        except Exception as error:
            # The last boundary: a fault of ours must end the rollout, and must not be retried.
            log.exception("%s: the proxy failed", session.rollout_id)
            return error_response(
                dialect, session.end(StopReason.FAILED_ALIGNMENT, f"the proxy failed: {error!r}")
            )

    def _session(self, secret: str) -> Session | None:
        key = _digest(secret)
        if key not in self._sessions and self._on_unknown is not None:
            self._on_unknown(secret)
        return self._sessions.get(key)

    async def _nothing_here(self, request: web.Request) -> web.StreamResponse:
        return error_response(CHAT, Refusal("no rollout has this address", HTTPStatus.UNAUTHORIZED))


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
