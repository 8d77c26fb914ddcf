"""From what a proxy captured to what a trainer gets, as a rollout and a controller bring it there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lego_core.batching.samples import Batch, make_batch
from lego_core.config import TrainConfig
from lego_core.training.trainer import Trainer, TrainerSpec
from lego_core.types import RolloutGroup, Sample, TrainMetrics
from lego_harness.proxy.capture import Capture
from lego_harness.types import Grade, StopReason, Trajectory

NOTHING = Capture(turns=(), branches=(), messages=(), asked=(), stop=None, error="")
"""What a session saw that nobody spoke to."""


def rollout(
    rollout_id: str, capture: Capture, reward: float | None, stop: StopReason = StopReason.COMPLETED
) -> Trajectory:
    """The record of a rollout; a reward of None is an absent one."""
    return Trajectory(
        id=rollout_id,
        task_id="t",
        epoch=0,
        harness="h",
        sandbox="s",
        stop_reason=stop,
        error="",
        grade=None if reward is None else Grade(reward=reward, tests={}, duration_s=0),
        turns=capture.turns,
        branches=capture.branches,
        messages=capture.messages,
        patch="",
    )


def group(*rollouts: Trajectory) -> RolloutGroup:
    return RolloutGroup(id="g", task_id="t", trajectories=rollouts)


def batch(*groups: RolloutGroup, std: bool = False) -> Batch:
    return make_batch(groups, advantage_std=std)


def step(model_dir: Path, samples: Sequence[Sample], **config: object) -> TrainMetrics:
    """One step in float64 that moves nothing."""
    return Trainer(spec(model_dir, **config)).train_step(samples)


def spec(model_dir: Path, **config: object) -> TrainerSpec:
    """A trainer in float64 whose weights stay as they are."""
    still = TrainConfig.model_validate({"learning_rate": 0.0, "kl_coef": 0.0, **config})
    return TrainerSpec(model_dir=model_dir, config=still, temperature=1.0, dtype="float64", experts="eager")
