"""Several engines behind the protocol of one.

    rollout ─▶ always the same engine, where its prefix is cached        publish ─▶ all of them at once

Invariant: when `publish` returns, every engine holds that version; when it raises, the pool must not be
used any more. Stateless, so that any number of processes may hold a copy and agree.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lego_core.together import together
from lego_harness.errors import EngineUnavailable
from lego_harness.types import GenerateRequest, Generation


class Replica(Protocol):
    """One engine of a pool, as `RayEngine`."""

    @property
    def name(self) -> str:
        """What errors call it."""
        ...

    async def generate(self, request: GenerateRequest) -> Generation: ...

    async def publish(self, weights: Path, version: int) -> None: ...

    async def health(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class EnginePool:
    """`lego_harness.proxy.upstream.Engine` over one or more engines."""

    engines: Sequence[Replica]

    async def generate(self, request: GenerateRequest) -> Generation:
        """As the engine of the call's rollout."""
        return await self.engines[engine_of(request.request_id, len(self.engines))].generate(request)

    async def publish(self, weights: Path, version: int) -> None:
        """Serve `weights` as policy `version` everywhere from now on."""
        await together(engine.publish(weights, version) for engine in self.engines)

    async def busy_s(self) -> float:
        """Seconds with a call in flight since the start, mean over engines."""
        states = await self._states()
        return sum(state.get("busy_s", 0.0) for state in states) / len(states)

    async def pids(self) -> dict[str, int]:
        """The process of each engine that serves, by the engine's name."""
        states = zip(self.engines, await self._states(), strict=True)
        return {engine.name: state["pid"] for engine, state in states if state}

    async def _states(self) -> list[Mapping[str, Any]]:
        return await together(_state(engine) for engine in self.engines)


async def _state(engine: Replica) -> Mapping[str, Any]:
    try:
        return await engine.health()
    except EngineUnavailable:  # it is starting again, and counts its busy seconds from the beginning then
        return {}


def engine_of(request_id: str, num_engines: int) -> int:
    """Index of the engine that answers a rollout's calls; `s00001.g00.r0.a3.t2` is a call of
    `s00001.g00.r0`."""
    rollout = request_id.partition(".a")[0]
    return zlib.crc32(rollout.encode()) % num_engines
