"""The scripted policy over HTTP, for programs that ask an upstream server; answers at once.

    /v1/chat/completions     text in, text out, as vLLM's own server; ids too where `return_token_ids` asks
    /inference/v1/generate   token ids in, token ids out, as vLLM's
    /v1/models

    stdout   {"url"}

A process of its own: what it costs is nobody's. Which turn is asked for is counted in the body.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
import time
from functools import cache
from typing import Any

from aiohttp import web

from benchmarks.checkpoint import checkpoint
from benchmarks.conversation import SHORT, reply_text
from benchmarks.engine import InstantEngine
from lego_harness.proxy.render import Renderer

SAID = re.compile(rb'"role":\s*"assistant"')
WANTS_IDS = re.compile(rb'"return_token_ids":\s*true')
BYTES_PER_TOKEN = 4.4


class Upstream:
    """One shape of conversation for everybody."""

    def __init__(self) -> None:
        renderer = Renderer.load(checkpoint(), max_model_len=10**6)
        self.ids = cache(InstantEngine(renderer, SHORT).encode)
        self._end = re.compile(rb"\b%d\b" % renderer.vocabulary.end_of_turn)
        self._numbers = itertools.count()

    async def chat(self, http: web.Request) -> web.Response:
        raw = await http.read()
        turn = len(SAID.findall(raw))
        ids = self.ids(turn).tolist()
        num_context = int(len(raw) / BYTES_PER_TOKEN)
        choice: dict[str, Any] = {"index": 0, "message": self._message(turn), "finish_reason": "tool_calls"}
        whole = {
            "id": f"chatcmpl-{next(self._numbers)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": "policy",
            "choices": [choice],
            "usage": _usage(num_context, len(ids)),
        }
        if WANTS_IDS.search(raw):
            choice["token_ids"] = ids
            whole["prompt_token_ids"] = list(range(num_context))
        return web.json_response(whole)

    async def generate(self, http: web.Request) -> web.Response:
        raw = await http.read()
        ids = self.ids((len(self._end.findall(raw)) - 2) // 2).tolist()
        logprobs = {"content": [{"token": f"token_id:{token}", "logprob": -0.5} for token in ids]}
        choice = {"index": 0, "token_ids": ids, "logprobs": logprobs, "finish_reason": "stop"}
        return web.json_response({"request_id": str(next(self._numbers)), "choices": [choice]})

    async def models(self, _: web.Request) -> web.Response:
        card = {"id": "policy", "object": "model", "created": 0, "owned_by": "x", "max_model_len": 10**6}
        return web.json_response({"object": "list", "data": [card]})

    def _message(self, turn: int) -> dict[str, Any]:
        said, command = reply_text(turn, SHORT)
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        calls = [{"id": f"call_{next(self._numbers):024d}", "type": "function", "function": function}]
        return {"role": "assistant", "content": said, "tool_calls": calls}


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


async def serve() -> None:
    upstream = Upstream()
    app = web.Application(client_max_size=2**30)
    app.router.add_post("/v1/chat/completions", upstream.chat)
    app.router.add_post("/inference/v1/generate", upstream.generate)
    app.router.add_get("/v1/models", upstream.models)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{runner.addresses[0][1]}"}) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
