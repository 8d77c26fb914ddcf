"""An engine that is asked again while it is away.

A harness changes its transcript or its tools after an error, so a restart, a pause for weights or an
overload must not reach it: it waits. Owns how long and how often. Invariant: what one attempt
sampled before it was cut off is nobody's turn; only a whole generation is returned.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from lego_harness.errors import EngineUnavailable
from lego_harness.proxy.upstream import Engine
from lego_harness.types import GenerateRequest, Generation

log = logging.getLogger(__name__)

PATIENCE_S = 300.0
"""An engine that is started again may take this long; most harnesses wait for ten minutes."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 8.0


class PatientEngine:
    """`Engine` over another one."""

    def __init__(
        self,
        engine: Engine,
        *,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._engine, self._patience_s = engine, patience_s
        self._clock, self._sleep = clock, sleep

    async def generate(self, request: GenerateRequest) -> Generation:
        """As the engine; raises its EngineUnavailable once patience has run out."""
        give_up_s, wait_s, attempt = self._clock() + self._patience_s, FIRST_WAIT_S, 0
        while True:
            try:
                return await self._attempt(request, attempt)
            except EngineUnavailable as error:
                if self._clock() + wait_s > give_up_s:
                    raise
                log.info("%s: asked again in %.2f s: %s", request.request_id, wait_s, error)
            await self._sleep(wait_s)
            wait_s, attempt = min(2 * wait_s, LONGEST_WAIT_S), attempt + 1

    async def _attempt(self, request: GenerateRequest, attempt: int) -> Generation:
        """A name of its own for each: an engine may still be dropping the one before."""
        name = f"{request.request_id}.r{attempt}" if attempt else request.request_id
        generation = await self._engine.generate(replace(request, request_id=name))
        if generation.finish_reason == "abort":
            raise EngineUnavailable(f"engine: call {name} was aborted; is it being restarted?")
        return generation
