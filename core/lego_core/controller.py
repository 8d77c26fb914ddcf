"""The training loop: one controller, synchronous.

    source ──specs──▶ workers ──trajectories──▶ store ──groups──▶ batch ──samples──▶ trainer
       ▲                 │ ids in, ids out                                              │
       │                 ▼                                                              │
       └── next step   engine ◀──────────── publish(version) ◀──────────── weights ─────┘

Who waits for whom: a step waits for all its rollouts; the trainer waits for the batch; publishing
waits for the trainer; the next step waits for publishing (staleness 0, law 10).

Invariant (law 8): a trajectory is in the store before it counts, and a step is committed by its
checkpoint, which carries the step's own record. Whatever happens between two commits, `run` on a
resumed store uses the trajectories that are there, samples only the missing ones and trains each
rollout once. Owns no numerics, no sandbox and no Ray: those stand behind the protocols below.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from lego_core.batching.samples import Batch, make_batch
from lego_core.boundary import Boundary
from lego_core.config import Recipe
from lego_core.health.acted import count_acts
from lego_core.health.series import resumed_steps
from lego_core.health.watchdog import Watchdog
from lego_core.resume import RECORD_KEY, Progress
from lego_core.rollouts.source import GroupSpec, RolloutSource
from lego_core.run_quarantine import RunQuarantine
from lego_core.store.mailbox import RunStopped
from lego_core.store.reader import RunReader
from lego_core.store.writer import RunWriter
from lego_core.together import together
from lego_core.types import HeldoutRecord, RolloutGroup, Sample, StepRecord, TrainMetrics
from lego_harness.errors import EngineError, SetupError
from lego_harness.rollout import RolloutSpec
from lego_harness.types import StopReason, Trajectory

Attempts = tuple[Trajectory, ...]
"""What was recorded for one rollout: the last counts, earlier ones failed and were done again."""


def group_attempts(trajectories: Iterable[Trajectory]) -> dict[str, Attempts]:
    """Attempts by rollout id, in the order of recording."""
    attempts: dict[str, Attempts] = {}
    for trajectory in trajectories:
        rollout_id = trajectory.id.partition("~")[0]
        attempts[rollout_id] = (*attempts.get(rollout_id, ()), trajectory)
    return attempts


class Rollouts(Protocol):
    """Runs rollouts, however many at a time it likes."""

    async def run(self, spec: RolloutSpec) -> Trajectory: ...


class TrainerClient(Protocol):
    """The trainer, wherever it runs."""

    async def train_step(self, samples: Sequence[Sample], step: int) -> TrainMetrics: ...

    async def save_checkpoint(self, directory: Path, state: dict[str, Any]) -> None: ...

    async def export(self, path: Path) -> None: ...


class Publisher(Protocol):
    """Brings weights to every engine."""

    async def publish(self, weights: Path, version: int) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Controller:
    """Runs a recipe from the first uncommitted step to the last."""

    recipe: Recipe
    source: RolloutSource
    rollouts: Rollouts
    trainer: TrainerClient
    engine: Publisher
    writer: RunWriter
    quarantine: RunQuarantine
    weights: Path
    """Where the trainer leaves weights for the engines; on tmpfs where there is one."""
    stored: dict[str, Attempts]
    """Uncommitted trajectories of an interrupted run, by rollout; empty for a new run."""

    async def run(self, progress: Progress) -> None:
        """Train every uncommitted step, with held-out evaluations around them."""
        if progress.missing_record is not None:
            self.writer.append_step(progress.missing_record)
        if progress.committed:
            await self._publish(progress.committed)
        if self._evaluation_due(progress.committed) and progress.committed not in progress.evaluated:
            await self.evaluate(progress.committed)
        boundary = Boundary(self.writer)
        await boundary.heed(progress.committed)
        watchdog = self._watchdog(progress.committed)
        for step in range(progress.committed + 1, self.recipe.train.steps + 1):
            await self.step(step, boundary, watchdog)
            await boundary.heed(step)
            if self._evaluation_due(step) and step not in progress.evaluated:
                await self.evaluate(step)

    def _evaluation_due(self, step: int) -> bool:
        every = self.recipe.eval.every
        return step in (0, self.recipe.train.steps) or (every > 0 and step % every == 0)

    async def step(self, step: int, boundary: Boundary, watchdog: Watchdog) -> StepRecord:
        """Sample, train, commit, publish: in this order, so that nothing is published uncommitted."""
        clock = _Stages()
        self._stage("rollout", step)
        groups = await self._collect(step)
        clock.lap("rollout")
        batch = make_batch(groups, advantage_std=self.recipe.train.advantage_std)
        self._stage("train", step)
        metrics = await self.trainer.train_step(batch.samples, step) if batch.samples else None
        clock.lap("train")
        record = _step_record(step, groups, batch, metrics, clock)
        why_stop = watchdog.after_step(record)
        if self._commit_due(step) or boundary.is_wanted() or why_stop:
            await self._commit(record)
        clock.lap("checkpoint")
        await self._publish(step)
        clock.lap("sync")
        record = replace(record, seconds=clock.total())
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

    async def _commit(self, record: StepRecord) -> None:
        directory = self.writer.layout.checkpoint(record.step)
        await self.trainer.save_checkpoint(directory, {RECORD_KEY: asdict(record), **self.quarantine.state()})
        self.writer.event("checkpoint", step=record.step, path=str(directory))
        for old in self.writer.layout.committed()[: -self.recipe.train.keep_checkpoints]:
            shutil.rmtree(old)

    async def _publish(self, version: int) -> None:
        await self.trainer.export(self.weights)
        await self.engine.publish(self.weights, version)

    async def evaluate(self, step: int) -> None:
        """Held-out solve rate of the current policy; trains nothing. Done once per step."""
        self._stage("evaluate", step)
        started = time.monotonic()
        attempts = await self._run_all(self.source.evaluation(step), step=None)
        done = [a[-1] for a in attempts.values()]
        graded = [t for t in done if t.grade is not None]
        _refuse_broken(done)
        self.writer.append_heldout(
            HeldoutRecord(
                step=step,
                policy_version=step,
                solve_rate=sum(_is_solved(t) for t in graded) / len(graded),
                n=len(graded),
                failed=_count(t.stop_reason.value for t in done if t.grade is None),
                temperature=self.recipe.eval.temperature,
                seconds=time.monotonic() - started,
            )
        )

    async def _collect(self, step: int) -> tuple[RolloutGroup, ...]:
        specs = self.source.step(step)
        attempts = await self._run_all([r for group in specs for r in group.rollouts], step=step)
        _refuse_broken([a[-1] for a in attempts.values()])
        # First attempts: what an interrupted run knew when it drew the steps whose rollouts are stored already.
        self.quarantine.observe([a[0] for a in attempts.values()], step=step)
        return tuple(_group(spec, attempts) for spec in specs)

    async def _run_all(self, specs: Sequence[RolloutSpec], *, step: int | None) -> dict[str, Attempts]:
        """The attempts of every spec: those an interrupted run left where they count, else a new one."""
        done = await together(self._run_one(spec, step) for spec in specs)
        return {spec.id: attempts for spec, attempts in zip(specs, done, strict=True)}

    async def _run_one(self, spec: RolloutSpec, step: int | None) -> Attempts:
        attempts = self.stored.pop(spec.id, ())
        if attempts and not attempts[-1].stop_reason.is_failure:
            return attempts
        if attempts:
            spec = replace(spec, id=f"{spec.id}~{len(attempts)}")
        trajectory = await self.rollouts.run(spec)
        self.writer.append_trajectory(trajectory, step=step)
        return (*attempts, trajectory)

    def _stage(self, stage: str, step: int) -> None:
        self.writer.event("stage", stage=stage, step=step)


class _Stages:
    """Wall seconds of consecutive stages."""

    def __init__(self) -> None:
        self._started = self._last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        now = time.monotonic()
        self.seconds[stage] = now - self._last
        self._last = now

    def total(self) -> dict[str, float]:
        return {**self.seconds, "total": self._last - self._started}


def _group(spec: GroupSpec, attempts: dict[str, Attempts]) -> RolloutGroup:
    trajectories = tuple(t for rollout in spec.rollouts for t in attempts[rollout.id])
    return RolloutGroup(id=spec.id, task_id=spec.task.id, trajectories=trajectories)


def _step_record(
    step: int, groups: Sequence[RolloutGroup], batch: Batch, metrics: TrainMetrics | None, clock: _Stages
) -> StepRecord:
    rollouts = [t for group in groups for t in group.trajectories]
    graded = [t for t in rollouts if t.grade is not None]
    return StepRecord(
        step=step,
        policy_version=step,
        reward_mean=sum(t.grade.reward for t in graded if t.grade) / len(graded) if graded else None,
        solved=sum(_is_solved(t) for t in graded),
        rollouts=len(rollouts),
        groups=len(groups),
        zero_variance_groups=batch.zero_variance_groups,
        pearson_r=metrics and metrics.pearson_r,
        mean_abs_dlogp=metrics and metrics.mean_abs_dlogp,
        k3=metrics and metrics.k3,
        routing_coverage=metrics and metrics.routing_coverage,
        sampled=batch.sampled,
        trained=batch.trained,
        masked=batch.masked,
        dropped=batch.dropped,
        tokens_per_s=batch.sampled / clock.seconds["rollout"],
        seconds=clock.total(),
        loss=metrics and metrics.loss,
        grad_norm=metrics and metrics.grad_norm,
        clip_fraction=metrics and metrics.clip_fraction,
        kl_loss=metrics and metrics.kl_loss,
        entropy=metrics and metrics.entropy,
        expert_overlap=metrics and metrics.expert_overlap,
        top1_agreement=metrics and metrics.top1_agreement,
        trained_rollouts=tuple(dict.fromkeys(s.rollout_id for s in batch.samples)),
        acted=count_acts(rollouts),
        by_lag=metrics.by_lag if metrics else {},
    )


def _is_solved(trajectory: Trajectory) -> bool:
    return trajectory.grade is not None and trajectory.grade.reward >= 1.0


def _count(reasons: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    return counts


def _refuse_broken(done: Sequence[Trajectory]) -> None:
    """A dead engine ends the run; so does a step in which most rollouts could not be judged: going
    on would train on whatever happened to survive."""
    failed = [t for t in done if t.grade is None]
    dead = [t for t in failed if t.stop_reason is StopReason.FAILED_ENGINE]
    if dead:
        raise EngineError(f"{len(dead)} of {len(done)} rollouts lost the engine: {dead[0].error}")
    if 2 * len(failed) > len(done):
        raise SetupError(
            f"only {len(done) - len(failed)} of {len(done)} rollouts were graded, expected most; "
            f"first failure ({failed[0].stop_reason.value}): {failed[0].error}"
        )
