"""The trainer in a process of its own, or several: the handle that the controller holds.

Invariant: a trainer that dies, refuses or does not answer within `timeout_s` surfaces as one error
naming why; its calls run one at a time, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError

from lego_core.errors import TrainingError
from lego_core.training.ray_ranks import RayRanks, make_ranks
from lego_core.training.trainer import TrainerSpec
from lego_core.types import Sample, TrainMetrics
from lego_core.weight_broadcast import Meeting
from lego_harness.errors import LegoError

T = TypeVar("T")

MAPPED_BYTES = 4 * 2**20
"""Tensors of at least this size go back to the machine when they are freed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RayTrainer:
    """`lego_core.controller.TrainerClient` over the ranks. Every method raises LegoError."""

    ranks: RayRanks
    pid: int
    """Of the first rank."""
    timeout_s: float

    async def train_step(self, samples: Sequence[Sample], step: int = 1) -> TrainMetrics:
        return await self._answer(
            self.ranks.call("train_step", tuple(samples), step), f"training step {step}"
        )

    async def score(self, sample: Sample) -> NDArray[np.float32]:
        """See `Trainer.score`."""
        return await self._answer(self.ranks.call("score", sample), "scoring a probe")

    async def export(self, path: Path) -> None:
        await self._answer(self.ranks.call("export", path), f"exporting weights to {path}")

    async def invite(self, num_engines: int, dtype: str, timeout_s: float) -> Meeting:
        """Where the engines, which hold weights in `dtype`, meet the first rank for one broadcast; `timeout_s` is as
        in `Meeting`."""
        call = self.ranks.actors[0].invite.remote(num_engines, dtype, timeout_s)
        return await self._answer(call, "inviting engines to a broadcast")

    async def broadcast(self, meeting: Meeting) -> None:
        """Send what was exported last."""
        await self._answer(self.ranks.call("broadcast", meeting), "broadcasting weights")

    async def save_checkpoint(self, directory: Path, state: dict[str, Any]) -> None:
        """Save its state as of now; meanwhile it may be asked for the next step."""
        for method, arguments in (("begin_checkpoint", (directory, state)), ("end_checkpoint", ())):
            await self._answer(self.ranks.call(method, *arguments), f"writing checkpoint {directory}")

    async def load_checkpoint(self, directory: Path) -> dict[str, Any]:
        return await self._answer(
            self.ranks.call("load_checkpoint", directory), f"reading checkpoint {directory}"
        )

    async def _answer(self, call: Awaitable[T], what: str) -> T:
        return await _answer(call, what, self.timeout_s)

    def close(self) -> None:
        """End the actors; nothing is saved."""
        self.ranks.kill()


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
    except OutOfMemoryError as error:
        raise TrainingError(
            f"{what} failed: Ray ended a trainer process because the machine ran out of memory; "
            "lower train.micro_batch_tokens or give it more, then resume the run"
        ) from error
    except RayError as error:
        told = str(error).partition("\n")[0]
        raise TrainingError(
            f"{what} failed in Ray: {type(error).__name__}: {told}; resume the run"
        ) from error


def environment(num_threads: int) -> dict[str, str]:
    """Variables that must be set before torch is imported."""
    return {
        "OMP_NUM_THREADS": str(num_threads),
        # Waiting threads sleep: spinning ones made a step 7 times slower beside a busy neighbour.
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "0",
        # Activations come and go by the gigabyte. In small pages a third of a step was the kernel's; kept in malloc's
        # own heap, the holes between them take more than they do.
        "GLIBC_TUNABLES": f"glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold={MAPPED_BYTES}",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


async def start_trainer(
    spec: TrainerSpec,
    *,
    num_cpus: float = 0,
    num_gpus: float | None = None,
    place: Mapping[str, Any] = MappingProxyType({}),
) -> RayTrainer:
    """Start an actor for each rank on the running Ray and wait until the model is loaded. `num_gpus` is for each
    rank; None means as `make_ranks` says. `place` holds Ray options that say where they go."""
    variables = {"env_vars": environment(spec.num_threads)}
    options: dict[str, Any] = {"num_cpus": num_cpus, "runtime_env": variables, **place}
    if num_gpus is not None:
        options["num_gpus"] = num_gpus
    ranks = make_ranks(spec.config.num_ranks, options)
    try:
        pid = await _answer(ranks.start(spec), "starting the trainer", spec.config.timeout_s)
        return RayTrainer(ranks=ranks, pid=pid, timeout_s=spec.config.timeout_s)
    except BaseException:
        ranks.kill()
        raise
