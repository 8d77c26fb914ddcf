"""All ranks of a trainer, one actor each, called as one.

Every call goes to all of them at once, as collectives need, and the first rank's answer is returned.
Invariant: a rank that dies or refuses ends the call with its reason. The others may then wait in a
collective that will not come: a caller that gets the error closes them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from lego_core.rank_fit import require_gpus
from lego_core.training.trainer import TrainerSpec
from lego_core.training.trainer_actor import TrainerActor
from lego_harness.errors import LegoError

DEATH_TOLD_S = 10.0
"""How long after a failure Ray may still report that another rank's death caused it."""


@dataclass(frozen=True, slots=True)
class RayRanks:
    """The actors, by rank."""

    actors: Sequence[Any]

    async def start(self, spec: TrainerSpec) -> int:
        """Load the model everywhere; the first rank's process id."""
        store = await self.actors[0].offer_store.remote() if len(self.actors) > 1 else None
        return await _first([actor.start.remote(spec, rank, store) for rank, actor in enumerate(self.actors)])

    async def call(self, method: str, *arguments: Any) -> Any:
        """Of a `TrainerActor`."""
        shared = [ray.put(argument) for argument in arguments]
        return await _first([getattr(actor, method).remote(*shared) for actor in self.actors])

    def kill(self) -> None:
        for actor in self.actors:
            ray.kill(actor)


def make_ranks(size: int, options: dict[str, Any]) -> RayRanks:
    """Actors on the running Ray, started with its `options`. Unless those say otherwise, each of several ranks has
    a GPU if there are any. Raises UsageError if there are too few, because Ray would wait for more."""
    num_gpus = int(ray.cluster_resources().get("GPU", 0)) if size > 1 else 0
    require_gpus(size, num_gpus)
    gpus = {"num_gpus": 1} if num_gpus else {}
    remote: Any = ray.remote
    actor = remote(concurrency_groups={"disk": 1})(TrainerActor).options(**{**gpus, **options})
    return RayRanks([actor.remote() for _ in range(size)])


async def _first(calls: Sequence[Awaitable[Any]]) -> Any:
    """The first answer, once all have answered. A death breaks the collectives of the other ranks, often before Ray
    reports it; then the death is the reason to give, not their broken connections."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return (await asyncio.gather(*tasks))[0]
    except RayTaskError as error:
        if len(tasks) > 1 and not isinstance(error.cause, LegoError):
            for death in await _deaths(tasks):
                raise death from error
        raise


async def _deaths(tasks: Sequence[asyncio.Future[Any]]) -> list[RayError]:
    """What Ray itself reports about ranks: any error except that of a call."""
    done, _ = await asyncio.wait(tasks, timeout=DEATH_TOLD_S)
    errors = [task.exception() for task in done]
    return [e for e in errors if isinstance(e, RayError) and not isinstance(e, RayTaskError)]
