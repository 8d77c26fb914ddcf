"""The trainer in a process of its own: the Ray actor and the handle the controller holds.

Invariant: a trainer that dies, refuses or does not answer within `timeout_s` surfaces as one error
naming why; its calls run one at a time, in order.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import RayActorError, RayTaskError

from lego_core.errors import TrainingError
from lego_core.training.trainer import Trainer, TrainerSpec
from lego_core.types import Sample, TrainMetrics
from lego_harness.errors import LegoError

T = TypeVar("T")


class TrainerActor:
    """Holds a `Trainer`; made empty, so that a model that does not load is an answer and not a death."""

    _trainer: Trainer

    def start(self, spec: TrainerSpec) -> int:
        """Load the model; the process id."""
        self._trainer = Trainer(spec)
        return os.getpid()

    def train_step(self, samples: Sequence[Sample], step: int) -> TrainMetrics:
        return self._trainer.train_step(samples, step)

    def score(self, sample: Sample) -> NDArray[np.float32]:
        return self._trainer.score(sample)

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
    timeout_s: float

    async def train_step(self, samples: Sequence[Sample], step: int = 1) -> TrainMetrics:
        return await self._answer(self.actor.train_step.remote(tuple(samples), step), f"training step {step}")

    async def score(self, sample: Sample) -> NDArray[np.float32]:
        """See `Trainer.score`."""
        return await self._answer(self.actor.score.remote(sample), "scoring a probe")

    async def export(self, path: Path) -> None:
        await self._answer(self.actor.export.remote(path), f"exporting weights to {path}")

    async def save_checkpoint(self, directory: Path, state: dict[str, Any]) -> None:
        await self._answer(
            self.actor.save_checkpoint.remote(directory, state), f"writing checkpoint {directory}"
        )

    async def load_checkpoint(self, directory: Path) -> dict[str, Any]:
        return await self._answer(
            self.actor.load_checkpoint.remote(directory), f"reading checkpoint {directory}"
        )

    async def _answer(self, call: Awaitable[T], what: str) -> T:
        return await _answer(call, what, self.timeout_s)

    def close(self) -> None:
        """End the actor; nothing is saved."""
        ray.kill(self.actor)


async def _answer(call: Awaitable[T], what: str, timeout_s: float) -> T:
    try:
        return await asyncio.wait_for(call, timeout_s)
    except TimeoutError:
        raise TrainingError(
            f"{what} got no answer from the trainer within train.timeout_s = {timeout_s:g} s; "
            "raise it if the step is that long, else resume the run"
        ) from None
    except RayTaskError as error:
        if isinstance(error.cause, LegoError):
            raise type(error.cause)(str(error.cause)) from None
        raise TrainingError(f"{what} failed: {type(error.cause).__name__}: {error.cause}") from error
    except RayActorError as error:
        raise TrainingError(f"{what} failed: the trainer process died; resume the run") from error


async def start_trainer(spec: TrainerSpec, *, num_cpus: float = 0) -> RayTrainer:
    """Start a trainer actor on the running Ray and wait until its model is loaded."""
    variables = {
        "OMP_NUM_THREADS": str(spec.num_threads),
        # Waiting threads sleep: spinning ones made a step 7 times slower beside a busy neighbour.
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "0",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    options = {"num_cpus": num_cpus, "runtime_env": {"env_vars": variables}}
    actor: Any = ray.remote(TrainerActor).options(**options).remote()
    try:
        pid = await _answer(actor.start.remote(spec), "starting the trainer", spec.config.timeout_s)
        return RayTrainer(actor=actor, pid=pid, timeout_s=spec.config.timeout_s)
    except BaseException:
        ray.kill(actor)
        raise
