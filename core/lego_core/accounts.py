"""What a step reports about itself: what it sampled, trained, left out and waited for.

Pure, apart from the clock it is given. Owns the definitions of idle shares and of lag.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from lego_core.batching.samples import Batch
from lego_core.health.acted import count_acts
from lego_core.types import RolloutGroup, StepRecord, TrainMetrics
from lego_harness.types import Trajectory


class Stages:
    """Seconds of consecutive stages, by the event loop's clock, which a simulation may replace."""

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._started = self._last = self._time()
        self.seconds: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        now = self._time()
        self.seconds[stage] = now - self._last
        self._last = now

    def total(self) -> dict[str, float]:
        return {**self.seconds, "total": self._last - self._started}


def step_record(
    step: int, groups: Sequence[RolloutGroup], batch: Batch, metrics: TrainMetrics | None, stages: Stages
) -> StepRecord:
    """The record of a step that has been trained and not yet published."""
    rollouts = [t for group in groups for t in group.trajectories]
    graded = [t for t in rollouts if t.grade is not None]
    record = StepRecord(
        step=step,
        policy_version=step,
        reward_mean=sum(t.grade.reward for t in graded if t.grade) / len(graded) if graded else None,
        solved=sum(is_solved(t) for t in graded),
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
        tokens_per_s=0.0,
        seconds={},
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
        pearson_r_logp=metrics and metrics.pearson_r_logp,
        mean_abs_dp=metrics and metrics.mean_abs_dp,
        rollout_gap=metrics.rollout_gap if metrics else {},
        lag=lag(step - 1, rollouts),
    )
    return timed(record, stages, engine_busy_s=None)


def timed(record: StepRecord, stages: Stages, *, engine_busy_s: float | None) -> StepRecord:
    """The record with the time that has passed; for `engine_busy_s` of it the engines had calls to answer."""
    seconds = stages.total()
    total = seconds["total"]
    busy_s = seconds.get("train", 0.0) + seconds.get("checkpoint", 0.0)
    return replace(
        record,
        seconds=seconds,
        tokens_per_s=record.sampled / total if total else 0.0,
        trainer_idle=_idle(busy_s, total),
        engine_idle=None if engine_busy_s is None else _idle(engine_busy_s, total),
    )


def lag(trainer_version: int, rollouts: Iterable[Trajectory]) -> dict[str, int]:
    """Versions behind the trainer → tokens sampled by them, smallest lag first."""
    tokens: Counter[int] = Counter()
    for trajectory in rollouts:
        for turn in trajectory.turns:
            versions, counts = np.unique(turn.token_versions, return_counts=True)
            for version, count in zip(versions, counts, strict=True):
                tokens[trainer_version - int(version)] += int(count)
    return {str(behind): tokens[behind] for behind in sorted(tokens)}


def is_solved(trajectory: Trajectory) -> bool:
    return trajectory.grade is not None and trajectory.grade.reward >= 1.0


def _idle(busy_s: float, total_s: float) -> float | None:
    return min(max(1 - busy_s / total_s, 0.0), 1.0) if total_s > 0 else None
