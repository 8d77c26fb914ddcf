"""What a simulated step leaves behind: the accounts of its rollouts, and what a trainer would have measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from lego_control.demo_runs.stories import Scene
from lego_core.health.acted import count_acts
from lego_core.types import HeldoutRecord, StepRecord
from lego_harness.types import Trajectory

Groups = Sequence[Sequence[Trajectory]]


def step_record(step: int, groups: Groups, scene: Scene, rng: np.random.Generator) -> StepRecord:
    """The record of a step; tokens are conserved (law 2)."""
    rollouts = [t for group in groups for t in group]
    rewards = [t.grade.reward for t in rollouts if t.grade]
    masked, dropped, trained = _ledger(groups)
    noise = 1 + 0.08 * rng.standard_normal(6)
    slowest = max(t.timings_s.get("agent", 0.0) for t in rollouts)
    seconds = {"rollout": 12 + slowest, "train": 41.0, "checkpoint": 2.5, "sync": 1.4}
    sampled = sum(t.num_sampled for t in rollouts)
    has_signal = trained > 0
    return StepRecord(
        step=step,
        policy_version=step,
        reward_mean=sum(rewards) / len(rewards) if rewards else None,
        solved=sum(reward >= 1 for reward in rewards),
        rollouts=len(rollouts),
        groups=len(groups),
        zero_variance_groups=sum(_is_flat(group) for group in groups),
        pearson_r=1 - (1 - scene.pearson_r) * float(noise[0]) if has_signal else None,
        mean_abs_dlogp=scene.mean_abs_dlogp * float(noise[1]) if has_signal else None,
        k3=scene.k3 * float(noise[2]) if has_signal else None,
        routing_coverage=scene.routing_coverage if has_signal else None,
        sampled=sampled,
        trained=trained,
        masked=masked,
        dropped=dropped,
        tokens_per_s=sampled / seconds["rollout"],
        seconds={**seconds, "total": sum(seconds.values())},
        loss=-0.004 * float(noise[3]) if has_signal else None,
        grad_norm=scene.grad_norm * abs(float(noise[4])) if has_signal else None,
        clip_fraction=0.02 * abs(float(noise[5])) if has_signal else None,
        kl_loss=scene.kl * float(noise[1]) if has_signal else None,
        entropy=scene.entropy * float(noise[2]) if has_signal else None,
        expert_overlap=min(scene.expert_overlap * (1 + 0.001 * float(noise[3])), 1.0) if has_signal else None,
        top1_agreement=min(scene.top1_agreement * (1 + 0.001 * float(noise[4])), 1.0) if has_signal else None,
        trained_rollouts=tuple(t.id for g in groups if not _is_flat(g) for t in g if t.grade),
        acted=count_acts(rollouts),
        lag={"0": sampled},
    )


def heldout_record(step: int, scene: Scene, count: int, rng: np.random.Generator) -> HeldoutRecord:
    """An evaluation of `count` tasks."""
    return HeldoutRecord(
        step=step,
        policy_version=step,
        solve_rate=float(rng.binomial(count, scene.heldout)) / count,
        n=count,
        failed={},
        temperature=0.7,
        seconds=90.0,
    )


def _is_flat(group: Sequence[Trajectory]) -> bool:
    return len({t.grade.reward for t in group if t.grade}) == 1


def _ledger(groups: Groups) -> tuple[dict[str, int], dict[str, int], int]:
    masked, dropped, trained = Counter[str](), Counter[str](), 0
    for group in groups:
        learns = len({t.grade.reward for t in group if t.grade}) > 1
        for t in group:
            if t.grade and learns:
                trained += t.num_sampled
                continue
            reason = "zero_variance" if t.grade else f"ungraded:{t.stop_reason.value}"
            masked[reason] += t.num_sampled
            dropped[reason] += 1
    return {k: v for k, v in masked.items() if v}, dict(dropped), trained
