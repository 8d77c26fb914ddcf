"""The scripted policy: says the same in every program under test, at once.

As `Engine` for our proxy it is token-in, token-out, with log-probabilities and, where asked for, routing
rows; `upstream.py` says the same words over HTTP to those that want text.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from benchmarks.conversation import Shape, reply_text
from lego_harness.proxy.render import Renderer
from lego_harness.types import GenerateRequest, Generation, Routes

NUM_LAYERS, TOP_K = 48, 8


class InstantEngine:
    """`Engine`; which turn is asked for is read from the name of the call."""

    def __init__(self, renderer: Renderer, shape: Shape, *, has_routes: bool = False) -> None:
        self._renderer, self._shape, self._has_routes = renderer, shape, has_routes
        self._ids = cache(self.encode)

    async def generate(self, request: GenerateRequest) -> Generation:
        ids = self._ids(int(request.request_id.rpartition(".t")[2]))
        return Generation(
            ids=ids,
            logprobs=np.full(len(ids), -0.5, np.float32),
            routes=self._routes(request, len(ids)) if self._has_routes else None,
            finish_reason="stop",
            policy_version=0,
        )

    def encode(self, turn: int) -> np.ndarray:
        """What it says in a turn."""
        said, command = reply_text(turn, self._shape)
        call = {"name": "bash", "arguments": {"command": command}}
        calls = [{"type": "function", "id": "", "function": call}]
        message = {"role": "assistant", "content": said, "tool_calls": calls}
        return np.array(self._renderer.encode_assistant(message), np.int32)

    def _routes(self, request: GenerateRequest, num_sampled: int) -> Routes:
        rows = len(request.context_ids) + num_sampled - 1 - request.routes_from
        return np.zeros((rows, NUM_LAYERS, TOP_K), np.int8)
