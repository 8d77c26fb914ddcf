"""How a load generator opens and closes conversations at a program under test.

    stdout             {"control": URL}
    POST /open         {"url", "headers"}: where one conversation is served
    POST /close        what `/open` said → {"turns", "branches", "tokens"}: what was recorded of it

Imports nothing of ours, so that it runs in other programs' environments.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Place = dict[str, Any]
Open = Callable[[], Awaitable[Place]]
Close = Callable[[Place], Awaitable[dict[str, int]]]


async def serve_control(opened: Open, closed: Close, **looks: Callable[[], dict[str, Any]]) -> None:
    """Serve until killed; each of `looks` is a GET under its name."""

    async def on_open(_: web.Request) -> web.Response:
        return web.json_response(await opened())

    async def on_close(http: web.Request) -> web.Response:
        return web.json_response(await closed(await http.json()))

    async def on_look(http: web.Request) -> web.Response:
        return web.json_response(looks[http.path[1:]]())

    app = web.Application()
    app.router.add_post("/open", on_open)
    app.router.add_post("/close", on_close)
    for name in looks:
        app.router.add_get(f"/{name}", on_look)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(json.dumps({"control": f"http://127.0.0.1:{runner.addresses[0][1]}"}) + "\n")
    sys.stdout.flush()
    os.dup2(2, 1)  # nobody reads on
    await asyncio.Event().wait()
