"""The training loop: one controller for every schedule.

    source ─specs─▶ windows ─▶ workers ─trajectories─▶ store ─groups of step k─▶ trainer
                       ▲          │ ids in, ids out                             │ batch, update, commit k
                       │          ▼                                             ▼
                   version k ◀─ engines ◀──────────── publish k ◀──────────── weights k

Time runs to the right; ▒ rollouts of a step, ▓ its training, S the bound `rollout.max_staleness`:

    S = 0   1 ▒▒▒▒▓             S = 1   1 ▒▒▒▒▓
            2      ▒▒▒▒▓                2 ▒▒▒▒▒▓
            3           ▒▒▒▒▓           3      ▒▒▒▒▓

| who                      | waits for                                     |
| ------------------------ | --------------------------------------------- |
| rollouts of step k       | version k − 1 − S to be published, then room  |
| training of step k       | all rollouts of step k, and version k − 1     |
| publishing version k     | training of step k                            |
| the commit of step k     | training of step k, and the commit before it; |
|                          | everything else goes on meanwhile             |
| an engine call in flight | nobody: a publish cuts it, and it goes on     |
| evaluation of version k  | version k                                     |
| the trainer              | an evaluation that shares its engines; one    |
|                          | that has its own only if more evaluations     |
|                          | wait than checkpoints are kept                |

A token is therefore at most S versions older than the weights it trains, including the time it waited for
room or for its siblings. Nothing is dropped to keep that bound: steps are trained in the source's order
with all of their rollouts, so how long a rollout takes never decides whether it is learned from. The
price is that a step waits for its longest rollout; a larger S hides that. Synchronous is S = 0 (law 10).

Invariant (law 8): a trajectory is stored before it counts, and a step is committed by its checkpoint,
which carries the step's own record. Whatever happens between two commits, `run` on a resumed store uses
the trajectories that are there, samples only the missing ones and trains each rollout once. Owns no
numerics, no sandbox and no Ray: those are behind the protocols below. Its only clock is the event
loop's, so that a simulation can drive it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from lego_core.accounts import Stages, step_record, timed
from lego_core.batching.samples import make_batch
from lego_core.boundary import Boundary
from lego_core.commits import Commits
from lego_core.config import Recipe
from lego_core.evaluation import Evaluator
from lego_core.health.series import resumed_steps
from lego_core.health.watchdog import Watchdog
from lego_core.restarts import Restarts
from lego_core.resume import ORDER_KEY, RECORD_KEY, Progress
from lego_core.rollouts.recorded import Attempts, RecordedRollouts, require_graded
from lego_core.rollouts.source import GroupSpec, RolloutSource
from lego_core.rollouts.windows import Windows
from lego_core.run_quarantine import RunQuarantine
from lego_core.store.mailbox import RunStopped
from lego_core.store.reader import RunReader
from lego_core.store.writer import RunWriter
from lego_core.together import task_group
from lego_core.types import RolloutGroup, Sample, StepRecord, TrainMetrics

Groups = tuple[RolloutGroup, ...]


class TrainerClient(Protocol):
    """The trainer, wherever it runs."""

    async def train_step(self, samples: Sequence[Sample], step: int) -> TrainMetrics: ...

    async def save_checkpoint(self, directory: Path, state: dict[str, Any]) -> None:
        """Save the state at the time of the call; returns once it is on disk. The next step may run meanwhile."""
        ...

    async def export(self, path: Path) -> None: ...


class Engines(Protocol):
    """All engines that sample for training."""

    async def publish(self, weights: Path, version: int) -> None: ...

    async def busy_s(self) -> float:
        """Seconds with a call in flight since some fixed moment, mean over engines."""
        ...

    async def pids(self) -> Mapping[str, int]:
        """The process of each engine that serves, by the engine's name."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Controller:
    """Runs a recipe from the first uncommitted step to the last."""

    recipe: Recipe
    source: RolloutSource
    rollouts: RecordedRollouts
    trainer: TrainerClient
    engine: Engines
    evaluator: Evaluator
    writer: RunWriter
    quarantine: RunQuarantine
    weights: Path
    """Folder in which the trainer leaves weights for the engines; on tmpfs if there is one."""

    async def run(self, progress: Progress) -> None:
        """Train every uncommitted step, with held-out evaluations around them."""
        done, last = progress.committed, self.recipe.train.steps
        if progress.missing_record is not None:
            self.writer.append_step(progress.missing_record)
        if done:
            await self._publish(done)
        boundary, watchdog = Boundary(self.writer), self._watchdog(done)
        restarts = Restarts(self.engine, self.writer)
        await restarts.tell(done)
        async with task_group() as group:
            for step in self.evaluator.missing(progress):
                await self.evaluator.evaluate(step, group)
            await boundary.heed(done)
            windows = Windows(group, self._collect, first=done + 1, last=last)
            commits = self._commits(group)
            for step in range(done + 1, last + 1):
                windows.admit(step + self.recipe.rollout.max_staleness)
                await self.step(step, windows, boundary, watchdog, commits)
                await restarts.tell(step)
                await boundary.heed(step)
                if self.evaluator.is_due(step) and step not in progress.evaluated:
                    await self.evaluator.evaluate(step, group)
                    most = self.recipe.train.keep_checkpoints
                    await self.evaluator.wait(most, partial(boundary.heed, step))
            await self.evaluator.wait(0, partial(boundary.heed, last))

    async def step(
        self,
        step: int,
        windows: Windows[Groups],
        boundary: Boundary,
        watchdog: Watchdog,
        commits: Commits,
    ) -> StepRecord:
        """Train on whole groups, commit, publish. A person or an evaluation that looks at a step waits for its
        commit; the next steps do not."""
        stages, busy_s = Stages(), await self.engine.busy_s()
        self.writer.event("stage", stage="rollout", step=step)
        groups = await windows.take(step)
        stages.lap("rollout")
        batch = make_batch(groups, advantage_std=self.recipe.train.advantage_std)
        self.writer.event("stage", stage="train", step=step)
        metrics = await self.trainer.train_step(batch.samples, step) if batch.samples else None
        stages.lap("train")
        record = step_record(step, groups, batch, metrics, stages)
        why_stop = watchdog.after_step(record)
        is_looked_at = boundary.is_wanted() or bool(why_stop) or self.evaluator.is_due(step)
        if is_looked_at or self._commit_due(step):
            await commits.begin(step, self._state(record))
        if is_looked_at:
            await commits.finish()
        stages.lap("checkpoint")
        await self._publish(step)
        stages.lap("sync")
        record = timed(record, stages, engine_busy_s=await self.engine.busy_s() - busy_s)
        self.writer.append_step(record)
        if why_stop:
            raise RunStopped(why_stop)
        return record

    def _watchdog(self, committed: int) -> Watchdog:
        reader = RunReader(self.writer.layout.root)
        past = [record for record in reader.steps() if record.step <= committed]
        resumed = [step for step in resumed_steps(reader.events()) if step <= committed]
        registered = self.recipe.watchdog
        return Watchdog(self.writer, self.writer.layout.root, registered, past=past, resumed=resumed)

    def _commit_due(self, step: int) -> bool:
        return step % self.recipe.train.checkpoint_every == 0 or step == self.recipe.train.steps

    def _state(self, record: StepRecord) -> dict[str, Any]:
        """What makes a step count, besides the trained weights."""
        order = self.source.order(record.step)
        return {RECORD_KEY: asdict(record), ORDER_KEY: order, **self.quarantine.state()}

    def _commits(self, group: asyncio.TaskGroup) -> Commits:
        return Commits(
            save=self.trainer.save_checkpoint,
            writer=self.writer,
            keep=self.recipe.train.keep_checkpoints,
            needed=self.evaluator.pending,
            group=group,
        )

    async def _publish(self, version: int) -> None:
        """Bring new weights to the engines. Nothing is recorded meanwhile; it waits for no rollout; a failure ends the run."""
        # A new name each time: a network file system may show an old file under a known one.
        weights = self.weights / f"weights-{version}"
        await self.trainer.export(weights)
        self.rollouts.proven.clear()
        await self.engine.publish(weights, version)
        self.rollouts.proven.set()
        weights.unlink(missing_ok=True)

    async def _collect(self, step: int) -> Groups:
        """The groups of a step, once all of its rollouts have ended and are stored."""
        specs = self.source.step(step)
        attempts = await self.rollouts.run([r for group in specs for r in group.rollouts], step=step)
        last = [a[-1] for a in attempts.values()]
        require_graded(last)
        # First attempts: what an interrupted run knew when it drew the steps whose rollouts are already stored.
        self.quarantine.observe([a[0] for a in attempts.values()], step=step)
        return tuple(_group(spec, attempts) for spec in specs)


def _group(spec: GroupSpec, attempts: dict[str, Attempts]) -> RolloutGroup:
    trajectories = tuple(t for rollout in spec.rollouts for t in attempts[rollout.id])
    return RolloutGroup(id=spec.id, task_id=spec.task.id, trajectories=trajectories)
