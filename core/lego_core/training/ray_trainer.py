"""The trainer in a process of its own: the Ray actor and the handle the controller holds.

Invariant: a trainer that dies or refuses surfaces as one error naming why; its calls run one at a
time, in order.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray.exceptions import RayActorError, RayTaskError

from lego_core.errors import TrainingError
from lego_core.training.ray_ranks import AllRanks, RankMethods, gpus_per_rank
from lego_core.training.trainer import Trainer, TrainerSpec
from lego_core.types import Sample, TrainMetrics
from lego_harness.errors import LegoError

T = TypeVar("T")


class TrainerActor(RankMethods):
    """Holds a `Trainer`; made empty, so that a model that does not load is an answer and not a death."""

    _trainer: Trainer

    def start(self, spec: TrainerSpec) -> int:
        """Load the model; the process id."""
        self._trainer = Trainer(spec)
        return os.getpid()

    def train_step(self, samples: Sequence[Sample], step: int) -> TrainMetrics:
        return self._trainer.train_step(samples, step)

    def export(self, path: Path) -> None:
        self._trainer.export(path)

    def save_checkpoint(self, directory: Path, state: dict[str, Any]) -> None:
        self._trainer.save_checkpoint(directory, state)

    def load_checkpoint(self, directory: Path) -> dict[str, Any]:
        return self._trainer.load_checkpoint(directory)


@dataclass(frozen=True, kw_only=True, slots=True)
class RayTrainer:
    """`lego_core.controller.TrainerClient` over an actor. Every method raises LegoError."""

    actor: Any
    pid: int

    async def train_step(self, samples: Sequence[Sample], step: int = 1) -> TrainMetrics:
        return await _answer(self.actor.train_step.remote(tuple(samples), step), "a training step")

    async def export(self, path: Path) -> None:
        await _answer(self.actor.export.remote(path), f"exporting weights to {path}")

    async def save_checkpoint(self, directory: Path, state: dict[str, Any]) -> None:
        await _answer(self.actor.save_checkpoint.remote(directory, state), f"checkpoint {directory}")

    async def load_checkpoint(self, directory: Path) -> dict[str, Any]:
        return await _answer(self.actor.load_checkpoint.remote(directory), f"checkpoint {directory}")

    def close(self) -> None:
        """End the actor, or those of all ranks; nothing is saved."""
        _kill(self.actor)


async def _answer(call: Awaitable[T], what: str) -> T:
    try:
        return await call
    except RayTaskError as error:
        if isinstance(error.cause, LegoError):
            raise type(error.cause)(str(error.cause)) from None
        raise TrainingError(f"{what} failed: {type(error.cause).__name__}: {error.cause}") from error
    except RayActorError as error:
        raise TrainingError(f"{what} failed: the trainer process died; resume the run") from error


def _kill(actor: Any) -> None:
    for one in actor.actors if isinstance(actor, AllRanks) else [actor]:
        ray.kill(one)


async def start_trainer(spec: TrainerSpec, *, num_cpus: float = 0) -> RayTrainer:
    """Start the trainer's actor on the running Ray, or one for each rank, and wait until its model is
    loaded."""
    variables = {
        "OMP_NUM_THREADS": str(spec.num_threads),
        # Waiting threads sleep: spinning ones made a step 7 times slower beside a busy neighbour.
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "0",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    options = {"num_cpus": num_cpus, "runtime_env": {"env_vars": variables}}
    if spec.config.num_ranks > 1:
        options["num_gpus"] = gpus_per_rank()
    made: list[Any] = [
        ray.remote(TrainerActor).options(**options).remote() for _ in range(spec.config.num_ranks)
    ]
    actor = made[0] if len(made) == 1 else AllRanks(made)
    try:
        if isinstance(actor, AllRanks):
            await _answer(actor.join(spec), "starting the trainer's ranks")
            return RayTrainer(actor=actor, pid=await _answer(actor.pid.remote(), "starting the trainer"))
        return RayTrainer(actor=actor, pid=await _answer(actor.start.remote(spec), "starting the trainer"))
    except BaseException:
        _kill(actor)
        raise
