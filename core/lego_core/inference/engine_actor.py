"""What runs in an engine's process: an engine that comes back with the weights it served.

    process ends ──▶ Ray starts another ──▶ first call ──▶ start, canary, last published weights ──▶ serves

Invariant: only an engine that the canary has proved and that holds the last published weights answers calls;
until there is one, calls raise EngineUnavailable and may be repeated. If the engine's own process dies, or its
start fails, this process ends too, so that there is only one way to come back. Ray limits how often that may
happen (`ray_engine.py`). Knows nothing of its callers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol

from lego_core.inference.kept_weights import KeptWeights
from lego_core.inference.spec import EngineSpec
from lego_core.weight_broadcast import Meeting
from lego_harness.errors import EngineError, EngineUnavailable
from lego_harness.types import GenerateRequest, Generation


class StartableEngine(Protocol):
    """An engine of this process: `VllmEngine` or `TorchEngine`."""

    @property
    def is_dead(self) -> bool: ...

    async def start(self) -> None: ...

    async def generate(self, request: GenerateRequest) -> Generation: ...

    async def abort(self, request_id: str) -> None: ...

    async def publish(self, weights: Path | Meeting, version: int) -> None: ...

    async def health(self) -> dict[str, Any]: ...

    async def close(self) -> None: ...


class EngineActor:
    """One engine, in a Ray actor that may be restarted."""

    def __init__(self, kind: Callable[[EngineSpec], StartableEngine], spec: EngineSpec, folder: Path) -> None:
        """`folder` outlives this process."""
        self._engine = kind(spec)
        self._kept = KeptWeights(folder)
        self._starting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Wait until it serves. Raises EngineError; after a first start that failed it does not come back."""
        self._starting = self._starting or asyncio.create_task(self._start())
        await asyncio.shield(self._starting)

    async def generate(self, request: GenerateRequest) -> Generation:
        """See `Engine.generate`."""
        async with self._serving(f"call {request.request_id}") as engine:
            return await engine.generate(request)

    async def abort(self, request_id: str) -> None:
        """Free a call's work; unknown ids are ignored."""
        if self._starting is not None and self._starting.done():
            await self._engine.abort(request_id)

    async def publish(self, path: Path, version: int, meeting: Meeting | None = None) -> None:
        """Serve these weights from now on, also after a restart; with `meeting` they are broadcast there, and the
        file at `path` is all of them and complete when that ends."""
        async with self._serving(f"publishing version {version}") as engine:
            whole = path if meeting else await asyncio.to_thread(self._kept.whole, path)
            await engine.publish(meeting or whole, version)
        await asyncio.to_thread(self._kept.keep, whole, version)

    async def health(self) -> dict[str, Any]:
        """`pid`, `policy_version`, `kind`."""
        async with self._serving("the health check") as engine:
            return await engine.health()

    async def close(self) -> None:
        """Stop the engine; idempotent."""
        await self._engine.close()

    async def _start(self) -> None:
        await self._engine.start()
        if (kept := self._kept.latest()) is not None:
            await self._engine.publish(*kept)

    @asynccontextmanager
    async def _serving(self, what: str) -> AsyncGenerator[StartableEngine]:
        """The engine, if it serves; begins to start it if this process is a restarted one."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(_end_if_failed)
        if not self._starting.done():
            raise EngineUnavailable(f"{what} has to wait: the engine is starting again")
        try:
            yield self._engine
        except EngineError:
            if self._engine.is_dead:
                _end_this_process()
            raise


def _end_if_failed(starting: asyncio.Task[None]) -> None:
    if not starting.cancelled() and starting.exception() is not None:
        _end_this_process()


def _end_this_process() -> NoReturn:
    os._exit(1)  # no other way out of an actor makes Ray start it again
