"""An engine whose replies are written beforehand, for everything between a harness and a policy.

Owns no model: it hands out scripted replies as an engine would, token by token, with
log-probabilities and routing rows that a test can recognise, and keeps the requests it saw.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lego_harness.proxy.render import Renderer
from lego_harness.types import GenerateRequest, Generation, Routes

Step = Mapping[str, Any] | Sequence[int] | Exception | Callable[[GenerateRequest], Generation]
NUM_LAYERS, TOP_K = 2, 2


def say(content: str = "", *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A reply with text and `(tool name, arguments)` calls, as the policy would sample it.

    >>> say("Looking.", ("bash", {"command": "ls"}))
    """
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"type": "function", "id": "", "function": {"name": name, "arguments": arguments}}
            for name, arguments in calls
        ]
    return message


class ScriptedEngine:
    """Answers call n with step n: a message, sampled ids, an exception, or a function of the request.

    `gate`, when given, must be set before any call is answered. Row t of the routing rows of call n
    holds `route_row(n, position)`.
    """

    def __init__(
        self,
        renderer: Renderer,
        steps: Iterable[Step],
        *,
        policy_version: int = 0,
        has_routes: bool = True,
        gate: asyncio.Event | None = None,
    ) -> None:
        self.requests: list[GenerateRequest] = []
        self.num_cancelled = 0
        self.started = asyncio.Event()
        """Set when a call has arrived."""
        self.policy_version = policy_version
        self.renderer = renderer
        self._steps = list(steps)
        self._has_routes = has_routes
        self._gate = gate
        self._next = 0

    async def generate(self, request: GenerateRequest) -> Generation:
        self.requests.append(request)
        self.started.set()
        try:
            if self._gate is not None:
                await self._gate.wait()
        except asyncio.CancelledError:
            self.num_cancelled += 1
            raise
        step = self._steps[self._next]
        self._next += 1
        if isinstance(step, Exception):
            raise step
        if callable(step):
            return step(request)
        return self.generation(request, self._ids(step))

    def generation(self, request: GenerateRequest, ids: Sequence[int]) -> Generation:
        """A valid generation of `ids`, cut at the request's limit."""
        sampled = np.array(ids, np.int32)[: request.sampling.max_tokens]
        is_stopped = int(sampled[-1]) in request.stop_ids
        return Generation(
            ids=sampled,
            logprobs=-0.01 * np.arange(1, len(sampled) + 1, dtype=np.float32),
            routes=self._routes(request, len(sampled)) if self._has_routes else None,
            finish_reason="stop" if is_stopped else "length",
            policy_version=self.policy_version,
        )

    def _ids(self, step: Mapping[str, Any] | Sequence[int]) -> Sequence[int]:
        return self.renderer.encode_assistant(step) if isinstance(step, Mapping) else step

    def _routes(self, request: GenerateRequest, num_sampled: int) -> Routes:
        positions = np.arange(request.routes_from, len(request.context_ids) + num_sampled - 1)
        return route_rows(np.full(len(positions), len(self.requests) - 1), positions)


def route_rows(calls: NDArray[Any], positions: NDArray[Any]) -> Routes:
    """`[n, 2, 2]` experts that name the call and the position each row was recorded in."""
    columns = [calls, positions % 1000, positions % 7, calls % 7]
    return np.stack(columns, axis=-1).reshape(-1, NUM_LAYERS, TOP_K).astype(np.int16)


def route_row(call: int, position: int) -> list[list[int]]:
    """One of `route_rows`."""
    return route_rows(np.array([call]), np.array([position]))[0].tolist()
