"""Held-out evaluation: how many tasks it was never trained on a published version solves.

    version k committed ─▶ rollouts of every held-out task ─▶ pass@1, pass@k, pass^k ─▶ store

With an engine of its own, an evaluation serves version k from its checkpoint while training goes on.
Otherwise the training engines sample it, and the loop waits so that they keep version k meanwhile.
Either way version k samples all of it, even if the run was killed in between, because only committed
versions are evaluated. Trains nothing; recorded once per step.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Protocol

from lego_core.accounts import is_solved
from lego_core.boundary import LOOK_EVERY_S
from lego_core.config import Recipe
from lego_core.pass_rates import pass_rates
from lego_core.resume import Progress
from lego_core.rollouts.recorded import RecordedRollouts, require_graded
from lego_core.rollouts.source import RolloutSource
from lego_core.store.writer import RunWriter
from lego_core.types import HeldoutRecord
from lego_harness.types import Trajectory

WEIGHTS_FILE = "model.safetensors"
"""The file of a checkpoint (see `training/checkpoint.py`) that an engine loads; it takes nothing else from there."""


class EvaluationEngine(Protocol):
    """An engine of the evaluations' own; starts with version 0."""

    async def publish(self, weights: Path, version: int) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluator:
    """Evaluates published versions, one at a time."""

    recipe: Recipe
    source: RolloutSource
    rollouts: RecordedRollouts
    writer: RunWriter
    engine: EvaluationEngine | None = None
    """None: `rollouts` are sampled by the training engines."""
    pending: set[int] = field(default_factory=set[int])
    """Steps whose evaluation has begun or waits; their checkpoints are needed."""
    beside: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """The running tasks of evaluations that have an engine of their own."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def is_due(self, step: int) -> bool:
        """Before the first step, after the last, and every `eval.every` steps."""
        every = self.recipe.eval.every
        return step in (0, self.recipe.train.steps) or (every > 0 and step % every == 0)

    def missing(self, progress: Progress) -> list[int]:
        """Steps of evaluations that were due and have no result, as far as their weights still exist."""
        steps = range(progress.committed + 1) if self.engine else [progress.committed]
        due = [step for step in steps if self.is_due(step) and step not in progress.evaluated]
        return [step for step in due if step in (0, progress.committed) or self._weights(step).exists()]

    async def evaluate(self, step: int, group: asyncio.TaskGroup) -> None:
        """Evaluate the version of `step`: with an engine of its own as a task of `group`, otherwise at once."""
        self.pending.add(step)
        if self.engine is None:
            self.writer.event("stage", stage="evaluate", step=step)
            await self._run(step)
        else:
            task = group.create_task(self._publish_and_run(self.engine, step))
            self.beside.add(task)
            task.add_done_callback(self.beside.discard)

    async def wait(self, most: int, heed: Callable[[], Awaitable[None]]) -> None:
        """Wait until at most `most` evaluations have no result yet; meanwhile `heed` what people ask."""
        told = None
        while len(self.pending) > most:
            if (step := min(self.pending)) != told:
                self.writer.event("stage", stage="evaluate", step=step)
                told = step
            await asyncio.wait(self.beside, timeout=LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
            await heed()

    async def _publish_and_run(self, engine: EvaluationEngine, step: int) -> None:
        async with self._turn:
            self.writer.event("evaluation", step=step)
            if step:
                await engine.publish(self._weights(step), step)
            await self._run(step)

    def _weights(self, step: int) -> Path:
        return self.writer.layout.checkpoint(step) / WEIGHTS_FILE

    async def _run(self, step: int) -> None:
        clock = asyncio.get_running_loop().time
        started = clock()
        specs = self.source.evaluation(step)
        attempts = await self.rollouts.run(specs, step=None)
        done = [attempts[spec.id][-1] for spec in specs]
        require_graded(done)
        self.writer.append_heldout(self._record(step, done, clock() - started))
        self.pending.discard(step)

    def _record(self, step: int, done: Sequence[Trajectory], seconds: float) -> HeldoutRecord:
        graded = [t for t in done if t.grade is not None]
        by_task = [list(group) for _, group in groupby(graded, key=lambda t: t.task_id)]
        solved = [[is_solved(t) for t in tries] for tries in by_task]
        return HeldoutRecord(
            step=step,
            policy_version=step,
            solve_rate=sum(is_solved(t) for t in graded) / len(graded),
            n=len(graded),
            failed=dict(Counter(t.stop_reason.value for t in done if t.grade is None)),
            temperature=self.recipe.eval.temperature,
            seconds=seconds,
            rates=pass_rates(solved, self.recipe.eval.num_samples),
        )
