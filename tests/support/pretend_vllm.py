"""A server with the schema of vLLM's `/inference/v1/generate` and no model: it says what a test scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Reply = dict[str, Any] | tuple[int, str]
"""A generation, or a status and a body."""


class PretendVllm:
    """Answers each call by `say`, which sees its JSON; keeps the calls."""

    def __init__(self, say: Callable[[dict[str, Any]], Reply], *, max_model_len: int = 8192) -> None:
        self.calls: list[dict[str, Any]] = []
        self.dropped = asyncio.Event()
        """Set when a client went away before its answer."""
        self.gate: asyncio.Event | None = None
        """Must be set before a call is answered, where a test gives one."""
        self.arrived = asyncio.Event()
        self._say, self._max_model_len = say, max_model_len

    async def models(self, request: web.Request) -> web.Response:
        model = {"id": "tiny", "object": "model", "max_model_len": self._max_model_len, "owned_by": "vllm"}
        return web.json_response({"object": "list", "data": [model]})

    async def generate(self, request: web.Request) -> web.Response:
        body = await request.json()
        if "token_ids" not in body:
            return web.json_response({"error": {"message": "token_ids: Field required"}}, status=400)
        self.calls.append(body)
        self.arrived.set()
        try:
            if self.gate is not None:
                await self.gate.wait()
        except asyncio.CancelledError:
            self.dropped.set()
            raise
        reply = self._say(body)
        if isinstance(reply, tuple):
            return web.Response(status=reply[0], text=reply[1])
        return web.json_response({"request_id": body["request_id"], "choices": [{"index": 0, **reply}]})


def generation(ids: list[int], *, finish: str = "stop", **fields: Any) -> dict[str, Any]:
    """One choice as vLLM writes it."""
    content = [{"token": f"token_id:{i}", "logprob": -0.5, "bytes": None, "top_logprobs": []} for i in ids]
    return {"token_ids": ids, "finish_reason": finish, "logprobs": {"content": content}, **fields}


@asynccontextmanager
async def served(pretend: PretendVllm, *, has_generate: bool = True) -> AsyncIterator[str]:
    """Its address while it is served."""
    app = web.Application(client_max_size=2**26)
    app.router.add_get("/v1/models", pretend.models)
    if has_generate:
        app.router.add_post("/inference/v1/generate", pretend.generate)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
