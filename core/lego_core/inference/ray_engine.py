"""An engine in a process of its own: the Ray actor, and the handle that rollout workers hold.

Invariant: every call on `RayEngine` ends in an answer or an EngineError, within `timeout_s` plus the time of the
publishes that may cut it; a cancelled call frees its work in the engine. Ray restarts an engine whose process died, at
most `MAX_RESTARTS` times. Until it is back, calls raise EngineUnavailable and only `publish` and `wait_until_serving`
wait for it; after the last restart they raise EngineError.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import ray
from ray.exceptions import ActorUnavailableError, OutOfMemoryError, RayActorError, RayError, RayTaskError

from lego_core.inference.engine import VllmEngine
from lego_core.inference.engine_actor import EngineActor
from lego_core.inference.spec import EngineSpec
from lego_core.inference.torch_engine import TorchEngine
from lego_core.inference.vllm_calls import environment
from lego_core.weight_broadcast import Meeting
from lego_harness.errors import EngineError, EngineUnavailable
from lego_harness.types import GenerateRequest, Generation

T = TypeVar("T")

START_TIMEOUT_S = 300.0
"""A start takes 25–45 s here and up to two minutes on a busy machine."""
MAX_RESTARTS = 3
"""Of one engine in one run: more restarts point to a fault that waiting does not mend."""
_ASK_AGAIN_S = 1.0
_CLOSE_S = 15.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RayEngine:
    """`lego_harness.proxy.upstream.Engine` over an actor; cheap to copy to other processes."""

    actor: Any
    timeout_s: float
    folder: Path
    """Temporary folder of its processes; gone when it is closed."""
    name: str = "the engine"
    """What errors call it."""
    max_cuts: int = 0
    """Publishes that a call may live through."""

    async def generate(self, request: GenerateRequest) -> Generation:
        """See `Engine.generate`."""
        call = self.actor.generate.remote(request)
        try:
            return await self._generation(call, f"call {request.request_id}")
        except (asyncio.CancelledError, EngineError):
            self.actor.abort.remote(request.request_id)
            raise

    async def publish(self, weights: Path, version: int) -> None:
        """Serve `weights` (safetensors, checkpoint names) as policy `version` from now on; an engine that is
        being started again is waited for, `START_TIMEOUT_S` at most."""
        await self._once_it_serves(
            lambda: self._answer(self.actor.publish.remote(weights, version), f"publishing version {version}")
        )

    async def receive(self, meeting: Meeting, weights: Path, version: int) -> None:
        """Serve what the trainer broadcasts at `meeting` as policy `version` from now on, and keep `weights`, its
        file. Done once: nobody meets again there."""
        call = self.actor.publish.remote(weights, version, meeting)
        # Who waits for a peer gives up after half of it, so that it is the silent one that is named.
        await answer(
            call, f"receiving version {version}", 2 * self.timeout_s, self.name, "2 engine.timeout_s"
        )

    async def wait_until_serving(self) -> None:
        """For `START_TIMEOUT_S` at most, if it is being started again."""
        await self._once_it_serves(self.health)

    async def health(self) -> dict[str, Any]:
        """`pid`, `policy_version`, `kind`, `busy_s`."""
        return await self._answer(self.actor.health.remote(), "the health check")

    async def close(self) -> None:
        """Stop the engine and its actor; it may already be dead, and Ray may no longer answer."""
        with contextlib.suppress(RayError, TimeoutError):
            await asyncio.wait_for(self.actor.close.remote(), _CLOSE_S)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(ray.kill, self.actor), _CLOSE_S)
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    async def _once_it_serves(self, ask: Callable[[], Awaitable[Any]]) -> None:
        give_up_s = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                await ask()
                return
            except EngineUnavailable:
                if time.monotonic() > give_up_s:
                    raise
            await asyncio.sleep(_ASK_AGAIN_S)

    async def _generation(self, call: Awaitable[Generation], what: str) -> Generation:
        """The engine itself bounds each segment of a call; this is for an engine that hangs. Segments
        and the publishes between them may take `timeout_s` each."""
        times = 2 * self.max_cuts + 1
        limit = "engine.timeout_s" if times == 1 else f"{times} engine.timeout_s"
        return await answer(call, what, times * self.timeout_s, self.name, limit)

    async def _answer(self, call: Awaitable[T], what: str) -> T:
        return await answer(call, what, self.timeout_s, self.name)


async def answer(
    call: Awaitable[T], what: str, timeout_s: float, name: str, limit: str = "engine.timeout_s"
) -> T:
    """Await a Ray call; every way it can fail becomes one EngineError that names the engine. `limit` names
    `timeout_s`."""
    try:
        return await asyncio.wait_for(call, timeout_s)
    except TimeoutError:
        raise EngineError(f"{what} got no answer from {name} within {limit} = {timeout_s:g} s") from None
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, EngineError):
            raise type(cause)(str(cause)) from None
        raise EngineError(f"{what} failed in {name}: {type(cause).__name__}: {cause}") from error
    except (ActorUnavailableError, OutOfMemoryError) as error:  # the second: Ray itself ended it
        raise EngineUnavailable(f"{what} failed: the process of {name} died and is started again") from error
    except RayActorError as error:
        raise EngineError(f"{what} failed: the process of {name} died; start a new one") from error
    except RayError as error:
        raise EngineError(f"{what} failed in Ray: {type(error).__name__}: {error}") from error


async def start_engine(
    spec: EngineSpec,
    *,
    kind: str = "vllm",
    num_cpus: float = 0,
    num_gpus: float = 0,
    name: str = "the engine",
    max_restarts: int = MAX_RESTARTS,
    max_cuts: int = 0,
    shared: Path | None = None,
    scratch: Path | None = None,
    place: Mapping[str, Any] = MappingProxyType({}),
) -> RayEngine:
    """Start an engine actor on the running Ray and wait until it is proven; raises EngineError.

    With `num_gpus` = 0 it sees every GPU there is. Its folder is made in `shared`, which its node can see. If that is
    also the node's `scratch` (a short path, because unix sockets are made in it), it keeps all its files there. `place`
    holds Ray options that say where it goes.
    """
    folder = Path(tempfile.mkdtemp(prefix="lego-engine-", dir=shared))
    own = {"TMPDIR": str(folder)} if shared == scratch else {}
    options = {
        "num_cpus": num_cpus,
        "num_gpus": num_gpus,
        "max_concurrency": 1024,
        "max_restarts": max_restarts,
        "runtime_env": {"env_vars": environment(spec.num_threads) | own},
        **place,
    }
    classes = {"vllm": VllmEngine, "torch": TorchEngine}
    actor_class: Any = ray.remote(EngineActor)
    actor = actor_class.options(**options).remote(classes[kind], spec, folder)
    engine = RayEngine(
        actor=actor, timeout_s=spec.config.timeout_s, folder=folder, name=name, max_cuts=max_cuts
    )
    try:
        await answer(actor.start.remote(), "starting", START_TIMEOUT_S, name, "START_TIMEOUT_S")
    except EngineUnavailable as error:  # it would not know what to come back with
        await engine.close()
        raise EngineError(f"starting failed: the process of {name} died; is there enough memory?") from error
    except (EngineError, asyncio.CancelledError):
        await engine.close()
        raise
    return engine
