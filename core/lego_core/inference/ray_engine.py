"""An engine in a process of its own: the Ray actor and the handle rollout workers hold.

Invariant: every call on `RayEngine` ends, within `timeout_s`, in an answer or an EngineError; a
cancelled call frees its work in the engine. A dead engine is not revived here: whoever owns the
run starts another one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from lego_core.inference.engine import EngineSpec, VllmEngine, environment
from lego_core.inference.torch_engine import TorchEngine
from lego_harness.errors import EngineError
from lego_harness.types import GenerateRequest, Generation

T = TypeVar("T")

START_TIMEOUT_S = 300.0
"""A start takes 25–45 s here and up to two minutes on a busy machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RayEngine:
    """`lego_harness.proxy.upstream.Engine` over an actor; cheap to copy to other processes."""

    actor: Any
    timeout_s: float
    name: str = "the engine"
    """What errors call it."""

    async def generate(self, request: GenerateRequest) -> Generation:
        """See `Engine.generate`."""
        call = self.actor.generate.remote(request)
        try:
            return await self._answer(call, f"call {request.request_id}")
        except (asyncio.CancelledError, EngineError):
            self.actor.abort.remote(request.request_id)
            raise

    async def publish(self, weights: Path, version: int) -> None:
        """Serve `weights` (safetensors, checkpoint names) as policy `version` from now on."""
        await self._answer(self.actor.publish.remote(weights, version), f"publishing version {version}")

    async def health(self) -> dict[str, Any]:
        """`pid`, `policy_version`, `kind`, `busy_s`."""
        return await self._answer(self.actor.health.remote(), "the health check")

    async def busy_s(self) -> float:
        """Seconds with a call in flight since the engine started."""
        return (await self.health())["busy_s"]

    async def close(self) -> None:
        """Stop the engine and its actor; a dead one is fine."""
        with contextlib.suppress(RayError, TimeoutError):
            await asyncio.wait_for(self.actor.close.remote(), 15.0)
        ray.kill(self.actor)

    async def _answer(self, call: Awaitable[T], what: str) -> T:
        return await answer(call, what, self.timeout_s, self.name)


async def answer(call: Awaitable[T], what: str, timeout_s: float, name: str) -> T:
    """Await a Ray call; every way it can fail becomes one EngineError that names the engine."""
    try:
        return await asyncio.wait_for(call, timeout_s)
    except TimeoutError:
        raise EngineError(
            f"{what} got no answer from {name} within engine.timeout_s = {timeout_s:g} s"
        ) from None
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, EngineError):
            raise EngineError(str(cause)) from None
        raise EngineError(f"{what} failed in {name}: {type(cause).__name__}: {cause}") from error
    except RayActorError as error:
        raise EngineError(f"{what} failed: the process of {name} died; start a new one") from error


async def start_engine(
    spec: EngineSpec, *, kind: str = "vllm", num_cpus: float = 0, name: str = "the engine"
) -> RayEngine:
    """Start an engine actor on the running Ray and wait until it is proven; raises EngineError."""
    classes: dict[str, type] = {"vllm": VllmEngine, "torch": TorchEngine}
    options = {
        "num_cpus": num_cpus,
        "max_concurrency": 1024,
        "runtime_env": {"env_vars": environment(spec.num_threads)},
    }
    actor = ray.remote(classes[kind]).options(**options).remote(spec)
    engine = RayEngine(actor=actor, timeout_s=spec.config.timeout_s, name=name)
    try:
        await answer(actor.start.remote(), "starting", START_TIMEOUT_S, name)
    except (EngineError, asyncio.CancelledError):
        await engine.close()
        raise
    return engine
