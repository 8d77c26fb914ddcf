"""An engine that says anything at its own pace, sometimes fails, and remembers what it said to whom."""

from __future__ import annotations

import asyncio
import random

import numpy as np

from lego_harness.errors import EngineError
from lego_harness.proxy.render import Renderer
from lego_harness.types import GenerateRequest, Generation
from tests.support.checkpoint import VOCAB_SIZE
from tests.support.scripted_engine import route_rows, say


class TalkativeEngine:
    """`Engine`; each rollout hears its own canary."""

    def __init__(self, renderer: Renderer, draw: random.Random) -> None:
        self.renderer = renderer
        self.said: set[tuple[str, bytes, bytes]] = set()
        """Rollout, context and sampled ids of each call that was answered."""
        self.num_running = 0
        self._draw = draw
        self._num_calls = 0

    async def generate(self, request: GenerateRequest) -> Generation:
        self.num_running += 1
        try:
            for _ in range(self._draw.choice((0, 0, 1, 3, 30))):
                await asyncio.sleep(0)
            if self._draw.random() < 0.002:
                raise EngineError("engine: it is fuzzed too")
            return self._generation(request)
        finally:
            self.num_running -= 1

    def _generation(self, request: GenerateRequest) -> Generation:
        rollout = request.request_id.split(".")[0]
        ids = np.array(self._ids(rollout), np.int32)[: request.sampling.max_tokens]
        self.said.add((rollout, request.context_ids.tobytes(), ids.tobytes()))
        self._num_calls += 1
        positions = np.arange(request.routes_from, len(request.context_ids) + len(ids) - 1)
        return Generation(
            ids=ids,
            logprobs=np.full(len(ids), -0.1, np.float32),
            routes=route_rows(np.full(len(positions), self._num_calls % 1000), positions),
            finish_reason="stop" if ids[-1] in request.stop_ids else "length",
            policy_version=0,
        )

    def _ids(self, rollout: str) -> list[int]:
        text = f"I am canary-{rollout}."
        calls = [("bash", {"command": f"{text} {i}"}) for i in range(self._draw.choice((0, 1, 1, 1, 2, 3)))]
        ids = self.renderer.encode_assistant(say(text * self._draw.choice((0, 1, 1, 9)), *calls))
        kind = self._draw.random()
        if kind < 0.1:
            return ids[: self._draw.randrange(1, len(ids) + 1)]
        if kind < 0.2:
            stop_ids = self.renderer.vocabulary.stop_ids
            noise = (self._draw.randrange(VOCAB_SIZE) for _ in range(self._draw.randrange(1, 30)))
            return [token for token in noise if token not in stop_ids] or ids[-1:]
        return ids
