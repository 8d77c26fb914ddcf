"""One pass over the batch with gradient, and what must be known before it begins.

    facts of the batch ─▶ for each micro-batch: forward (routes replayed) ─▶ loss ─▶ backward

Leaves gradients in the model and touches no weight. Knows no optimizer and no step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lego_core.algorithms.correction import rollout_correction
from lego_core.algorithms.objective import Objective, PolicyLoss, policy_loss
from lego_core.config import TrainConfig
from lego_core.training.logprobs import DeviceBatch, TokenScores
from lego_core.training.ranks import Ranks
from lego_core.training.routing_replay import RouterAgreement
from lego_core.training.scorer import Scorer


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Facts of the whole batch that are known before the loss; lists are by micro-batch."""

    counts: Tensor
    """`[R]` trained tokens."""
    old: list[Tensor] | None
    """`[N]` denominators of the ratio; None if this pass itself computes them, so that the ratio is 1."""
    rollout_ratio: Tensor | None
    """`[R]` mean log-ratio, for an objective over the rollout."""
    reference: list[Tensor] | None
    """`[N]` log-probabilities of the frozen reference."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """What one pass measured."""

    scores: list[TokenScores]
    """By micro-batch of this rank."""
    loss: float
    kl: float
    clipped: float
    """Share of the batch's weight that the clip bounded."""


def gradients(
    policy: Scorer,
    objective: Objective,
    config: TrainConfig,
    batches: Sequence[DeviceBatch],
    facts: Facts,
    ranks: Ranks,
    router: RouterAgreement | None = None,
) -> Pass:
    """Add the gradients of the batch's loss to the model's; `router` collects agreement. `batches` are this rank's,
    sums are over all ranks."""
    scores: list[TokenScores] = []
    losses: list[PolicyLoss] = []
    weights: list[Tensor] = []
    for i, batch in enumerate(batches):
        with policy.bound(batch, router if batch.is_counted else None) as score:
            weight = objective.weights(facts.counts, batch.rollout)
            weight = weight if batch.is_counted else torch.zeros_like(weight)
            loss = _loss(objective, config, batch, score.logp, weight, facts, i)
            loss.loss.backward()
        scores.append(TokenScores(logp=score.logp.detach(), entropy=score.entropy))
        losses.append(loss)
        weights.append(weight.sum())
    sums = [sum(float(x.loss.detach()) for x in losses), sum(float(x.kl) for x in losses)]
    sums += [sum(float(x.clipped) for x in losses), sum(float(w) for w in weights)]
    loss, kl, clipped, weight = ranks.sum(torch.tensor(sums, dtype=torch.float64)).tolist()
    return Pass(scores=scores, loss=loss, kl=kl, clipped=clipped / weight)


def _loss(
    objective: Objective,
    config: TrainConfig,
    batch: DeviceBatch,
    logp: Tensor,
    weight: Tensor,
    facts: Facts,
    index: int,
) -> PolicyLoss:
    old = logp.detach() if facts.old is None else facts.old[index]
    of_rollout = facts.rollout_ratio
    return policy_loss(
        objective,
        logp,
        logp.detach() - old if of_rollout is None else of_rollout[batch.rollout],
        batch.advantage,
        weight,
        correction=rollout_correction(
            old, batch.rollout_logprobs, kind=config.rollout_correction, bound=config.correction_bound
        ),
        reference=facts.reference[index] if facts.reference else None,
        kl_coef=config.kl_coef,
    )
