"""The processes of a run: a Ray of its own with engine, trainer and rollout workers.

    controller (this process)
      ├── RolloutPool ──▶ RolloutWorker actors: proxy, harness, sandboxes
      │                        │ ids in, ids out
      ├── RayEngine   ──▶ engine actor ◀┘
      └── RayTrainer  ──▶ trainer actor

Always starts a new Ray with loopback addresses, random ports and a folder of its own, so that a
Ray that runs for something else is neither used nor touched. Everything is stopped in reverse when
the context ends. Decides nothing about training.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lego_core.config import Recipe
from lego_core.inference.engine import EngineSpec
from lego_core.inference.ray_engine import RayEngine, start_engine
from lego_core.rollouts.worker import RolloutWorker, WorkerConfig
from lego_core.together import together
from lego_core.training.ray_trainer import RayTrainer, start_trainer
from lego_core.training.trainer import TrainerSpec
from lego_harness.errors import InfrastructureError, LegoError
from lego_harness.rollout import RolloutSpec
from lego_harness.types import Trajectory

log = logging.getLogger(__name__)

OBJECT_STORE_BYTES = 512 * 2**20
CLOSE_TIMEOUT_S = 20.0
TRAINER_THREADS = 1
"""On a CPU: two threads spend more on waiting for each other than a tiny model's step takes."""
RAY_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Loopback only and gone with the run; sandboxes have no network to reach it.
    "RAY_AUTH_MODE": "disabled",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """Running parts."""

    rollouts: RolloutPool
    trainer: RayTrainer
    engine: RayEngine


class RolloutPool:
    """Workers behind one bound on rollouts in flight; the least loaded takes the next."""

    def __init__(self, workers: Sequence[Any], concurrency: int) -> None:
        self._load = dict.fromkeys(workers, 0)
        self._room = asyncio.Semaphore(concurrency * len(workers))

    async def run(self, spec: RolloutSpec) -> Trajectory:
        """One rollout on some worker; raises InfrastructureError when that worker died."""
        from ray.exceptions import RayError

        async with self._room:
            worker = min(self._load, key=self._load.__getitem__)
            self._load[worker] += 1
            call = worker.run.remote(spec)
            try:
                return await call
            except RayError as error:
                raise InfrastructureError(f"rollout {spec.id}: its worker died: {error}") from error
            finally:
                self._load[worker] -= 1


@asynccontextmanager
async def open_cluster(
    recipe: Recipe, model_dir: Path, *, engine_kind: str, label: str, scratch: Path
) -> AsyncIterator[Cluster]:
    """Everything a controller needs, started and proven; raises InfrastructureError."""
    async with AsyncExitStack() as stack:
        stack.enter_context(_ray(scratch))
        starting: list[Coroutine[Any, Any, Any]] = [
            _engine(stack, recipe, model_dir, engine_kind, scratch),
            _trainer(stack, recipe, model_dir),
        ]
        engine, trainer = await together(starting)
        pool = await _workers(
            stack,
            recipe,
            WorkerConfig(
                harness=recipe.harness.name,
                options=recipe.harness.options,
                sandbox=recipe.sandbox.backend,
                model_dir=model_dir,
                max_model_len=recipe.engine.max_model_len,
                template_options=recipe.model.template_options,
                label=label,
                integrity=recipe.rollout.integrity,
                scratch=scratch,
            ),
            engine,
        )
        yield Cluster(rollouts=pool, trainer=trainer, engine=engine)


@contextmanager
def _signals_stay_ours() -> Iterator[None]:
    """Ray's core ends the process that starts it with SIGABRT on a SIGTERM: nothing would be put away."""
    ours = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
            signal.siginterrupt(number, False)  # as asyncio has it


@contextmanager
def _ray(scratch: Path) -> Iterator[None]:
    os.environ.update(RAY_ENVIRONMENT)
    import ray

    try:
        with _signals_stay_ours():
            ray.init(
                address="local",
                include_dashboard=False,
                log_to_driver=False,
                object_store_memory=OBJECT_STORE_BYTES,
                _node_ip_address="127.0.0.1",
                _temp_dir=str(scratch / "ray"),
            )
    except Exception as error:
        raise InfrastructureError(f"Ray did not start: {error}; its logs were in {scratch}") from error
    try:
        yield
    finally:
        ray.shutdown()


async def _engine(
    stack: AsyncExitStack, recipe: Recipe, model_dir: Path, kind: str, scratch: Path
) -> RayEngine:
    spec = EngineSpec(model_dir=model_dir, config=recipe.engine, routes=recipe.train.routing_replay)
    engine = await start_engine(spec, kind=kind, scratch=scratch)
    stack.push_async_callback(engine.close)
    return engine


async def _trainer(stack: AsyncExitStack, recipe: Recipe, model_dir: Path) -> RayTrainer:
    spec = TrainerSpec(
        model_dir=model_dir,
        config=recipe.train,
        temperature=recipe.rollout.temperature,
        num_threads=TRAINER_THREADS,
        seed=recipe.run.seed,
        max_tokens=recipe.rollout.max_tokens,
    )
    trainer = await start_trainer(spec)
    stack.callback(trainer.close)
    return trainer


async def _workers(
    stack: AsyncExitStack, recipe: Recipe, config: WorkerConfig, engine: RayEngine
) -> RolloutPool:
    import ray

    actor = ray.remote(RolloutWorker).options(num_cpus=0, max_concurrency=1024)
    workers = [actor.remote(engine, config) for _ in range(recipe.rollout.num_workers)]
    for worker in workers:
        stack.push_async_callback(_close_worker, worker)
    await together([_started(worker) for worker in workers])
    return RolloutPool(workers, recipe.rollout.concurrency)


async def _started(worker: Any) -> None:
    from ray.exceptions import RayError, RayTaskError

    try:
        await worker.start.remote()
    except RayTaskError as error:
        if isinstance(error.cause, LegoError):
            raise error.cause from None
        raise InfrastructureError(f"a rollout worker did not start: {error.cause}") from error
    except RayError as error:
        raise InfrastructureError(f"a rollout worker did not start: {error}") from error


async def _close_worker(worker: Any) -> None:
    import ray
    from ray.exceptions import RayError

    try:
        await asyncio.wait_for(worker.close.remote(), CLOSE_TIMEOUT_S)
    except (RayError, TimeoutError) as error:
        log.warning("a rollout worker did not close: %s", error)
    ray.kill(worker)
