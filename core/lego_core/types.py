"""Records between a trajectory and an optimizer step.

    Trajectory → RolloutGroup → Sample → (Trainer) → StepRecord

Owns shapes only. Invariant: frozen once made; each sampled token is trained in at most one Sample.
`T` is a branch's length, `L` decoder layers, `K` experts per token.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lego_core.pass_rates import PassRates
from lego_harness.types import LogProbs, Routes, TokenIds, Trajectory


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutGroup:
    """The sibling trajectories of one task in one step; the unit of the advantage baseline."""

    id: str
    """`s00012.g03`."""
    task_id: str
    trajectories: tuple[Trajectory, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One branch, ready for the trainer."""

    rollout_id: str
    """Branches of one rollout share it: GSPO's ratio and the loss weight are per rollout (law 4)."""
    ids: TokenIds
    """`[T]`"""
    mask: NDArray[np.bool_]
    """`[T]` True on the sampled tokens this sample owns."""
    rollout_logprobs: LogProbs
    """`[T]` what the engine reported; 0 where unmasked."""
    advantage: float
    routes: Routes | None
    """`[T, L, K]`, −1 where absent; None when nothing is replayed."""
    versions: NDArray[np.int32] | None = None
    """`[T]` policy version of the sampled tokens; None when the trainer's own weights sampled all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LagAgreement:
    """Agreement of rollout and trainer over the tokens of one policy version."""

    tokens: int
    mean_abs_dlogp: float
    k3: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainMetrics:
    """What one optimizer step measured, over the tokens it trained.

    Agreement (`pearson_r`, `mean_abs_dlogp`, `k3`) compares only tokens sampled by the weights at the start
    of the step, and is None if there are none. Staler tokens differ because the weights do; see `by_lag`.
    """

    loss: float
    grad_norm: float
    clip_fraction: float
    kl_loss: float
    entropy: float
    pearson_r: float | None
    """Pearson correlation of exp(logp), trainer against rollout, over trained tokens; None if it
    is undefined (one token, or all equal)."""
    mean_abs_dlogp: float | None
    k3: float | None
    """mean(e^d − d − 1), d = trainer logp − rollout logp."""
    routing_coverage: float
    """Share of positions that should be replayed (all but each sequence's last) and were."""
    expert_overlap: float | None
    """Mean share of the replayed top-k the live router would also choose; None without replay."""
    top1_agreement: float | None
    trained_tokens: int
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    pearson_r_logp: float | None = None
    """As `pearson_r`, but of the log-probabilities themselves: unlikely tokens dominate it."""
    mean_abs_dp: float | None = None
    """As `mean_abs_dlogp`, but of probabilities."""
    by_lag: dict[str, LagAgreement] = field(default_factory=dict[str, LagAgreement])
    """Trainer version − version that sampled the token → agreement of those tokens."""
    rollout_gap: dict[str, float] = field(default_factory=dict[str, float])
    """`p50`, `p90`, `p99` over rollouts of |mean of Δlogp over its tokens|; empty where `pearson_r` is None."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Acted:
    """What the rollouts of a step did; counts over all of them, before any filter."""

    turns: int
    """Engine calls."""
    truncated: int
    """Rollouts that reached a turn or token limit."""
    calls: int
    """Tool calls that could be read."""
    malformed: int
    """Replies with a tool call that could not be read."""
    silent: int
    """Rollouts that sampled without a single readable call."""
    dominated: int
    """Rollouts in which one token makes up half of all sampled ones."""
    stop_reasons: dict[str, int]
    """Stop reason → rollouts."""
    unearned: int = 0
    """Rewarded rollouts that are in doubt: nothing was changed, or the integrity report says that the patch answers
    without computing or that the verdict was forged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRecord:
    """One line of steps.jsonl: everything one optimizer step did and everything it left out."""

    step: int
    """1-based."""
    policy_version: int
    """Version published by this step; version 0 is the untrained policy."""
    reward_mean: float | None
    """Over graded rollouts, before any filter."""
    solved: int
    """Graded rollouts with reward 1."""
    rollouts: int
    """Rollouts started for this step."""
    groups: int
    zero_variance_groups: int
    """Graded groups whose rewards are all equal: no advantage, nothing trained. If all groups are like
    that, the step makes no update and everything the trainer would have measured is None."""
    pearson_r: float | None
    mean_abs_dlogp: float | None
    k3: float | None
    routing_coverage: float | None
    sampled: int
    """Tokens sampled by every rollout of the step."""
    trained: int
    masked: dict[str, int]
    """Reason → tokens; sampled = trained + sum(masked) (law 2)."""
    dropped: dict[str, int]
    """Reason → rollouts."""
    tokens_per_s: float
    """`sampled` over the step's time."""
    seconds: dict[str, float]
    """Stage → wall seconds: rollout (that the trainer waited for it), train, checkpoint, sync, total."""
    loss: float | None
    grad_norm: float | None
    clip_fraction: float | None
    kl_loss: float | None
    entropy: float | None
    expert_overlap: float | None
    top1_agreement: float | None
    trained_rollouts: tuple[str, ...]
    """Ids of the rollouts in the batch: trained exactly once over the whole run."""
    acted: Acted | None = None
    """None in records written before this was counted."""
    by_lag: dict[str, LagAgreement] = field(default_factory=dict[str, LagAgreement])
    """As `TrainMetrics.by_lag`."""
    lag: dict[str, int] = field(default_factory=dict[str, int])
    """Versions behind the trainer → sampled tokens, of every rollout of the step; at most
    `rollout.max_staleness` versions."""
    trainer_idle: float | None = None
    """Share of the step's time in which the trainer neither trained nor saved. That time is `seconds["total"]`; an
    evaluation that the trainer waits for, or a pause, comes after it."""
    engine_idle: float | None = None
    """Share of that time without a call in flight, mean over engines."""
    pearson_r_logp: float | None = None
    mean_abs_dp: float | None = None
    rollout_gap: dict[str, float] = field(default_factory=dict[str, float])
    """As in `TrainMetrics`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldoutRecord:
    """One line of heldout.jsonl: an evaluation that trains nothing."""

    step: int
    policy_version: int
    solve_rate: float
    """Solved over graded."""
    n: int
    """Graded rollouts."""
    failed: dict[str, int]
    """Stop reason → rollouts without a grade."""
    temperature: float
    seconds: float
    rates: PassRates | None = None
    """pass@1, pass@k and pass^k with intervals; None if no task has k graded rollouts."""
