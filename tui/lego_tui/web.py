"""The display in a browser on the same machine, through textual-serve.

Owns who may see it. Invariants: it listens on loopback only; everything is behind an unguessable
path; a request for another host name or from another page's origin is refused, so that no web site can
reach it through the reader's browser; the page loads nothing from elsewhere; each tab is a display of its
own that only looks.
"""

from __future__ import annotations

import secrets
import shlex
import socket
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web
from textual_serve.server import Server

_TAKE_KEYS = """<script>
new MutationObserver((_, seen) => {
  document.querySelector("textarea.xterm-helper-textarea")?.focus();
  if (document.body.classList.contains("-first-byte")) seen.disconnect();
}).observe(document.body, {attributes: true});
</script></body>"""
"""The terminal has the keys from the start; textual-serve's page gives them to it after a click."""
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def serve(command: Sequence[str], *, port: int, say: Callable[[str], None]) -> int:
    """Serve the display that `command` runs until it is interrupted; the address is told through `say`."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        server = LoopbackServer(shlex.join(command), port=listening.getsockname()[1])
        say(f"{server.address}   (this machine only, read-only; ctrl+c ends it)")
        web.run_app(server.guarded(), sock=listening, print=None, access_log=None)
    return 0


class LoopbackServer(Server):
    """textual-serve behind a secret path."""

    def __init__(self, command: str, *, port: int) -> None:
        super().__init__(command, host="127.0.0.1", port=port, title="lego watch")  # pyright: ignore[reportUnknownMemberType]
        self.secret = secrets.token_urlsafe(24)
        self._origins = {f"http://{host}:{port}" for host in ("127.0.0.1", "localhost")}

    @property
    def address(self) -> str:
        """Where the display is."""
        return f"{self.public_url}/{self.secret}/"

    async def on_startup(self, app: web.Application) -> None:
        """Prints nothing: we print the address, once."""

    async def guarded(self) -> web.Application:
        """The application with its doors."""
        outer = web.Application(middlewares=[self._guard])
        outer.add_subapp(f"/{self.secret}/", await self._make_app())
        return outer

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if f"http://{request.host}" not in self._origins or (
            origin is not None and origin not in self._origins
        ):
            raise web.HTTPForbidden(text="only for this machine's own browser")
        response = await handler(request)
        if isinstance(response, web.Response) and response.content_type == "text/html" and response.text:
            response.text = response.text.replace("</body>", _TAKE_KEYS)
        if not response.prepared:
            sockets = " ".join(origin.replace("http", "ws", 1) for origin in sorted(self._origins))
            response.headers["Content-Security-Policy"] = (
                f"default-src 'self' 'unsafe-inline' data:; connect-src 'self' {sockets}; frame-ancestors 'none'"
            )
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["X-Content-Type-Options"] = "nosniff"
        return response
