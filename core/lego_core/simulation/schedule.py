"""One simulated run: the real controller, source, windows and batching on simulated parts.

Owns how a schedule is set up and what is read from it. Decides nothing about staleness: that is the
controller's code, which is the point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from lego_core.config import Recipe
from lego_core.controller import Controller
from lego_core.evaluation import Evaluator
from lego_core.recipe_file import parse_recipe
from lego_core.resume import Progress
from lego_core.rollouts.recorded import RecordedRollouts
from lego_core.rollouts.source import RolloutSource
from lego_core.run_quarantine import RunQuarantine
from lego_core.simulation import virtual_time
from lego_core.simulation.parts import (
    MemoryStore,
    SimulatedEngines,
    SimulatedRollouts,
    SimulatedTrainer,
    Taken,
)
from lego_core.types import HeldoutRecord, StepRecord
from lego_harness.rollout import RolloutSpec
from lego_harness.types import Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """What to simulate."""

    max_staleness: int
    slots: int
    """Rollouts at a time."""
    groups_per_step: int
    group_size: int
    steps: int
    duration_s: Callable[[RolloutSpec], float]
    train_s: float
    publish_s: float = 0.0
    num_tasks: int = 64
    eval_every: int = 0
    eval_samples: int = 1
    """Rollouts of the one held-out task."""
    has_eval_engine: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a simulated run came to."""

    steps: tuple[StepRecord, ...]
    heldout: tuple[HeldoutRecord, ...]
    rollouts: dict[str, Taken]
    """Evaluations included."""
    trained: tuple[str, ...]
    """Rollouts in the order of training."""
    total_s: float
    """Virtual seconds."""


def simulate(schedule: Schedule) -> Outcome:
    """Run a schedule to its end in virtual time."""
    return virtual_time.run(_run(schedule))


async def _run(schedule: Schedule) -> Outcome:
    recipe = _recipe(schedule)
    store, trainer = MemoryStore(), SimulatedTrainer(step_s=schedule.train_s)
    engines = SimulatedEngines(schedule.publish_s)
    slots = asyncio.Semaphore(schedule.slots)
    source = RolloutSource(
        recipe=recipe, train=_tasks("train", schedule.num_tasks), heldout=_tasks("heldout", 1)
    )
    rollouts = RecordedRollouts(rollouts=_simulated(schedule, engines, slots), store=store, stored={})
    writer = cast(Any, store)
    apart = SimulatedEngines(schedule.publish_s) if schedule.has_eval_engine else None
    evaluator = Evaluator(
        recipe=recipe,
        source=source,
        rollouts=replace(rollouts, rollouts=_simulated(schedule, apart or engines, slots)),
        writer=writer,
        engine=apart,
    )
    controller = Controller(
        recipe=recipe,
        source=source,
        rollouts=rollouts,
        trainer=trainer,
        engine=engines,
        evaluator=evaluator,
        writer=writer,
        quarantine=RunQuarantine(writer, source.quarantine, told=set()),
        weights=Path("/nonexistent/weights"),
    )
    await controller.run(_FRESH)
    return Outcome(
        steps=tuple(store.steps),
        heldout=tuple(store.heldout),
        rollouts=store.rollouts,
        trained=tuple(trainer.trained),
        total_s=asyncio.get_running_loop().time(),
    )


def _simulated(schedule: Schedule, engines: SimulatedEngines, slots: asyncio.Semaphore) -> SimulatedRollouts:
    return SimulatedRollouts(engines=engines, duration_s=schedule.duration_s, slots=slots)


_FRESH = Progress(committed=0, checkpoint=None, missing_record=None, stored=(), evaluated=frozenset())


def _recipe(schedule: Schedule) -> Recipe:
    return parse_recipe(
        {
            "rollout": {
                "max_staleness": schedule.max_staleness,
                "groups_per_step": schedule.groups_per_step,
                "group_size": schedule.group_size,
            },
            "train": {"steps": schedule.steps},
            "eval": {
                "num_tasks": 1,
                "every": schedule.eval_every,
                "num_samples": schedule.eval_samples,
                "engines": int(schedule.has_eval_engine),
            },
        },
        source="simulation",
    )


def _tasks(split: str, count: int) -> list[Task]:
    return [Task(id=f"{split}-{i}", path=Path(), instruction="", split=split) for i in range(count)]
