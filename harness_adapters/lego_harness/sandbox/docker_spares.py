"""Containers that were started before anybody asked, so that a sandbox opens in the time it takes to fill it.

A spare is what `open` would have started for an agent phase, the files aside. Invariant: a spare is handed out
once; it is filled and its network proven closed only then; one that the engine was interrupted over, or that
does not run any more, is removed instead. Tasks with an image of their own get none: the next one's is
another's. Sizes are small: an idle container costs its shim's memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from lego_harness.errors import SetupError
from lego_harness.sandbox import docker_engine as engine
from lego_harness.sandbox.base import Phase, SandboxSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class Spare:
    """A started container and the engine's interruptions before it."""

    name: str
    state: engine.State
    count: int


class Spares:
    """Up to `keep` spares of the kind that was opened last."""

    def __init__(self, keep: int, start: Callable[[SandboxSpec], Awaitable[Spare]]) -> None:
        self._keep = keep
        self._start = start
        self._kind: SandboxSpec | None = None
        self._starting: list[asyncio.Task[Spare]] = []

    async def take(self, spec: SandboxSpec, count: int) -> Spare | None:
        """One that fits and still runs; None where there is none."""
        while self._kind == _kind(spec) and self._starting and self._starting[0].done():
            task = self._starting.pop(0)
            with contextlib.suppress(SetupError):
                spare = task.result()
                state = await asyncio.to_thread(engine.state, spare.name)
                if spare.count == count and state is not None and state.is_running:
                    return spare
                await asyncio.to_thread(engine.remove, spare.name, to_the_bone=True)
        return None

    async def refill(self, spec: SandboxSpec) -> None:
        """Start what is missing, without waiting for it."""
        if not self._keep or spec.phase is not Phase.AGENT or spec.image is not None:
            return
        kind, others = _kind(spec), list[asyncio.Task[Spare]]()
        if self._kind != kind:  # both change at once: another rollout may look while these are removed
            others, self._starting, self._kind = self._starting, [], kind
        while len(self._starting) < self._keep:
            self._starting.append(asyncio.ensure_future(_started(self._start(kind))))
        await asyncio.shield(_removed(others))

    async def close(self) -> None:
        """Remove what was not taken; raises SetupError."""
        starting, self._starting, self._kind = self._starting, [], None
        await asyncio.shield(_removed(starting))


async def _removed(starting: list[asyncio.Task[Spare]]) -> None:
    for spare in await asyncio.gather(*starting, return_exceptions=True):
        if isinstance(spare, Spare):
            await asyncio.to_thread(engine.remove, spare.name)


async def _started(start: Awaitable[Spare]) -> Spare:
    return await start


def _kind(spec: SandboxSpec) -> SandboxSpec:
    return replace(spec, files={})
