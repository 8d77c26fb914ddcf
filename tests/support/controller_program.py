"""A whole run in one process, real but for its numbers: real controller, source and store, scripted
rollouts and a trainer that only remembers what it was given.

`python -m tests.support.controller_program RUNS_DIR MAX_STALENESS` starts a run there, or resumes the one that is
there. It is made to be killed.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lego_core.config import Recipe
from lego_core.controller import Controller
from lego_core.evaluation import Evaluator
from lego_core.resume import Progress, find_progress
from lego_core.rollouts.quarantine import Quarantine
from lego_core.rollouts.recorded import RecordedRollouts, Rollouts, group_attempts
from lego_core.rollouts.source import RolloutSource
from lego_core.run_quarantine import RunQuarantine
from lego_core.store import RunWriter
from lego_core.types import Sample, TrainMetrics
from lego_harness.rollout import RolloutSpec
from lego_harness.types import Grade, StopReason, Task, Trajectory
from tests.support.runs import recipe, trajectory

STEPS = 20


def example_recipe(max_staleness: int = 1) -> Recipe:
    """Twenty steps of 4 × 4 rollouts and 6 held-out tasks."""
    return recipe(
        train={"steps": STEPS},
        rollout={"group_size": 4, "groups_per_step": 4, "max_staleness": max_staleness},
        eval={"num_tasks": 6, "every": 3},
    )


def example_source(wanted: Recipe, known: Quarantine | None = None) -> RolloutSource:
    train, heldout = _tasks("train", 10), _tasks("heldout", 6)
    return RolloutSource(recipe=wanted, train=train, heldout=heldout, quarantine=known or Quarantine())


def _tasks(split: str, count: int) -> list[Task]:
    return [Task(id=f"{split}-{i}", path=Path(), instruction="", split=split) for i in range(count)]


class ScriptedRollouts:
    """Outcome by seed; a tenth of them fail. Finishing takes a moment, in random order."""

    async def run(self, spec: RolloutSpec) -> Trajectory:
        await asyncio.sleep(random.uniform(0, 0.02))
        outcome = random.Random(f"{spec.id}/{spec.sampling.seed}")
        made = trajectory(spec.id, sampled=outcome.randint(1, 30), task_id=spec.task.id, epoch=spec.epoch)
        if outcome.random() < 0.1:
            return replace(made, stop_reason=StopReason.FAILED_HARNESS, error="scripted", grade=None)
        reward = float(outcome.random() < 0.5)
        return replace(made, grade=Grade(reward=reward, tests={}, duration_s=0.0))


class RememberingTrainer:
    """Its weights are the list of rollouts it was trained on."""

    def __init__(self) -> None:
        self.trained: list[str] = []
        self.published: list[int] = []

    async def train_step(self, samples: Sequence[Sample], step: int) -> TrainMetrics:
        await asyncio.sleep(0.01)
        self.trained += dict.fromkeys(s.rollout_id for s in samples)
        return TrainMetrics(
            loss=0.0,
            grad_norm=1.0,
            clip_fraction=0.0,
            kl_loss=0.0,
            entropy=0.1,
            pearson_r=1.0,
            mean_abs_dlogp=0.0,
            k3=0.0,
            routing_coverage=1.0,
            expert_overlap=1.0,
            top1_agreement=1.0,
            trained_tokens=sum(int(s.mask.sum()) for s in samples),
        )

    async def save_checkpoint(self, directory: Path, state: dict[str, Any]) -> None:
        temporary = directory.with_suffix(".tmp")
        temporary.mkdir(exist_ok=True)
        (temporary / "state.json").write_text(json.dumps(state | {"trained": self.trained}))
        await asyncio.sleep(0.005)
        temporary.rename(directory)

    def load(self, directory: Path) -> None:
        self.trained = json.loads((directory / "state.json").read_text())["trained"]

    async def export(self, path: Path) -> None:
        await asyncio.sleep(0.002)

    async def publish(self, weights: Path, version: int) -> None:
        self.published.append(version)

    async def busy_s(self) -> float:
        return 0.0

    async def pids(self) -> dict[str, int]:
        return {"the engine": 1}


def make_controller(
    wanted: Recipe, writer: RunWriter, progress: Progress, trainer: RememberingTrainer, rollouts: Rollouts
) -> Controller:
    """A controller whose trainer also stands for the engines."""
    quarantine = RunQuarantine.of_run(writer, progress.checkpoint)
    source = example_source(wanted, quarantine.known)
    recorded = RecordedRollouts(rollouts=rollouts, store=writer, stored=group_attempts(progress.stored))
    return Controller(
        recipe=wanted,
        source=source,
        rollouts=recorded,
        trainer=trainer,
        engine=trainer,
        evaluator=Evaluator(recipe=wanted, source=source, rollouts=recorded, writer=writer),
        writer=writer,
        quarantine=quarantine,
        weights=writer.layout.root / "weights",
    )


async def run(
    runs_dir: Path, rollouts: Rollouts | None = None, *, max_staleness: int = 1
) -> RememberingTrainer:
    """Start or resume the run in `runs_dir` and bring it to its end."""
    found = sorted(runs_dir.glob("*/run.json"))
    wanted = example_recipe(max_staleness)
    writer = RunWriter.resume(found[0].parent) if found else RunWriter.create(runs_dir, wanted)
    trainer = RememberingTrainer()
    with writer:
        progress = find_progress(writer.layout.root)
        if progress.checkpoint:
            trainer.load(progress.checkpoint)
        controller = make_controller(wanted, writer, progress, trainer, rollouts or ScriptedRollouts())
        await controller.run(progress)
    return trainer


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), max_staleness=int(sys.argv[2])))
