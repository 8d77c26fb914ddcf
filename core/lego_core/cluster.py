"""The processes of a run, on its Ray cluster: engines, trainer and rollout workers.

    controller (this process)
      ├── RolloutPool   ──▶ RolloutWorker actors: proxy, harness, sandboxes
      │                        │ ids in, ids out
      ├── ProbedEngines ──▶ engine actors ◀┘
      ├── RayTrainer    ──▶ trainer actor
      └── with `eval.engines` a worker and an engine that only evaluations use

`ray_places.py` decides which Ray cluster that is and where on it each process goes. Everything is stopped in reverse
order when the context ends. Decides nothing about training.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lego_core.config import Recipe
from lego_core.inference.broadcast import Broadcaster
from lego_core.inference.pool import EnginePool
from lego_core.inference.probe import ProbedEngines
from lego_core.inference.ray_engine import RayEngine, start_engine
from lego_core.inference.spec import EngineSpec
from lego_core.model_config import vocab_size
from lego_core.rank_fit import gpu_share
from lego_core.ray_places import Joining, Places, open_ray
from lego_core.rollouts.worker import RolloutWorker, WorkerConfig
from lego_core.together import together
from lego_core.training.ray_trainer import RayTrainer, start_trainer
from lego_core.training.trainer import TrainerSpec
from lego_harness.errors import InfrastructureError, LegoError
from lego_harness.proxy.upstream import Engine
from lego_harness.rollout import RolloutSpec
from lego_harness.types import Trajectory

log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 20.0
AROUND_ROLLOUT_S = 1800.0
"""Time for steps without a limit in the recipe: pulling an image, making sandboxes, exporting. The slowest of the
paper's 3,699 rollouts spent about 1,200 s on them (Table 4)."""
TRAINER_THREADS = 1
"""On a CPU: two threads would spend more time waiting for each other than a tiny model's step takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """Running parts."""

    rollouts: RolloutPool
    trainer: RayTrainer
    engines: ProbedEngines
    evaluation: Evaluation | None
    weights: Path
    """Folder in which the trainer leaves weights for the engines; on tmpfs if there is one."""
    by_node: Mapping[str, Mapping[str, int]]
    """See `Places`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What only evaluations use."""

    rollouts: RolloutPool
    engine: RayEngine


class RolloutPool:
    """Workers that share one bound on rollouts in flight; the first to ask begins first, on the least loaded worker."""

    def __init__(self, workers: Sequence[Any], concurrency: int) -> None:
        self._load = dict.fromkeys(workers, 0)
        self._room = asyncio.Semaphore(concurrency * len(workers))

    async def run(self, spec: RolloutSpec) -> Trajectory:
        """One rollout on some worker; raises InfrastructureError when that worker died or hangs."""
        async with self._room:
            worker = min(self._load, key=self._load.__getitem__)
            self._load[worker] += 1
            try:
                return await _rollout(worker, spec)
            finally:
                self._load[worker] -= 1


async def _rollout(worker: Any, spec: RolloutSpec) -> Trajectory:
    from ray.exceptions import RayError

    limit_s = spec.budget.max_seconds + spec.task.verifier_timeout_s + AROUND_ROLLOUT_S
    try:
        return await asyncio.wait_for(worker.run.remote(spec), limit_s)
    except TimeoutError:
        raise InfrastructureError(
            f"rollout {spec.id}: its worker gave no answer within {limit_s:g} s, which is its own limits and "
            f"{AROUND_ROLLOUT_S:g} s for sandboxes; resume the run"
        ) from None
    except RayError as error:
        raise InfrastructureError(f"rollout {spec.id}: its worker died: {error}; resume the run") from error


@asynccontextmanager
async def open_cluster(
    recipe: Recipe,
    model_dir: Path,
    *,
    engine_kind: str,
    label: str,
    scratch: Path,
    joining: Joining | None = None,
) -> AsyncIterator[Cluster]:
    """Everything a controller needs, started and proven; raises InfrastructureError."""
    names = [f"engine {i + 1} of {recipe.engine.replicas}" for i in range(recipe.engine.replicas)]
    names += ["the evaluation engine"] * recipe.eval.engines
    async with AsyncExitStack() as stack:
        places = await stack.enter_async_context(open_ray(recipe, scratch, joining))
        gpus = gpu_share(recipe, places.num_gpus)
        starting: list[Coroutine[Any, Any, Any]] = [
            _trainer(stack, recipe, model_dir, gpus, places),
            *(_engine(stack, recipe, model_dir, engine_kind, name, gpus, places) for name in names),
        ]
        trainer, *engines = await together(starting)
        config = WorkerConfig(
            harness=recipe.harness.name,
            options=recipe.harness.options,
            sandbox=recipe.sandbox.backend,
            model_dir=model_dir,
            max_model_len=recipe.engine.max_model_len,
            template_options=recipe.model.template_options,
            label=label,
            integrity=recipe.rollout.integrity,
            scratch=places.scratch,
        )
        replicas = tuple(engines[: recipe.engine.replicas])
        pool = EnginePool(engines=replicas)
        rollouts = await _workers(stack, recipe, config, pool, recipe.rollout.num_workers, places)
        evaluation = None
        if recipe.eval.engines:
            evaluation = Evaluation(
                rollouts=await _workers(stack, recipe, config, engines[-1], 1, places), engine=engines[-1]
            )
        yield Cluster(
            rollouts=rollouts,
            trainer=trainer,
            engines=_probed(replicas, recipe, model_dir, trainer),
            evaluation=evaluation,
            weights=places.shared,
            by_node=places.by_node,
        )


def _probed(
    engines: Sequence[RayEngine], recipe: Recipe, model_dir: Path, trainer: RayTrainer
) -> ProbedEngines:
    broadcaster = Broadcaster(
        sender=trainer, engines=engines, dtype=recipe.engine.dtype, timeout_s=recipe.engine.timeout_s
    )
    return ProbedEngines(
        pool=EnginePool(engines=engines),
        scorer=trainer,
        vocab=vocab_size(model_dir),
        dtype=recipe.engine.dtype,
        temperature=recipe.rollout.temperature,
        broadcaster=broadcaster if recipe.engine.weight_transfer == "broadcast" else None,
    )


async def _engine(
    stack: AsyncExitStack, recipe: Recipe, model_dir: Path, kind: str, name: str, gpus: float, places: Places
) -> RayEngine:
    spec = EngineSpec(model_dir=model_dir, config=recipe.engine, routes=recipe.train.routing_replay)
    cuts = recipe.rollout.max_staleness  # versions that are published while a step's rollouts may run
    engine = await start_engine(
        spec,
        kind=kind,
        num_gpus=gpus,
        name=name,
        max_cuts=cuts,
        shared=places.shared,
        scratch=places.scratch,
        place=places.engines,
    )
    stack.push_async_callback(engine.close)
    return engine


async def _trainer(
    stack: AsyncExitStack, recipe: Recipe, model_dir: Path, gpus: float, places: Places
) -> RayTrainer:
    spec = TrainerSpec(
        model_dir=model_dir,
        config=recipe.train,
        temperature=recipe.rollout.temperature,
        num_threads=TRAINER_THREADS,
        seed=recipe.run.seed,
        max_tokens=recipe.rollout.max_tokens,
        changes_in=recipe.engine.dtype if recipe.engine.weight_sync == "delta" else None,
        is_broadcast=recipe.engine.weight_transfer == "broadcast",
    )
    trainer = await start_trainer(spec, num_gpus=gpus, place=places.ranks)
    stack.callback(trainer.close)
    return trainer


async def _workers(
    stack: AsyncExitStack, recipe: Recipe, config: WorkerConfig, engine: Engine, count: int, places: Places
) -> RolloutPool:
    import ray

    actor = ray.remote(RolloutWorker).options(**{"num_cpus": 0, **places.workers}, max_concurrency=1024)
    workers = [actor.remote(engine, config) for _ in range(count)]
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
