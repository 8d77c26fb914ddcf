"""What the trainer needs from a policy objective: a loss and a weight for each token.

    loss = Σ_t w_t · (c_t · l_t + kl_coef · kl_t)

l and w come from the objective; c corrects for an engine that differs from the trainer (1 when that is
off); kl is the k3 penalty against the reference. It is a sum over tokens, so micro-batches and ranks add
up to the batch. This requires that everything about a whole rollout or batch (its token count, GSPO's
mean log-ratio) is known before any part of the loss is computed.

Shapes: N tokens of a micro-batch, R rollouts of the whole batch; `rollout` `[N]` maps one to the
other. Pure functions; no state, no model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from lego_core.algorithms.divergence import k3_penalty


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenLosses:
    """Of each token, before any weight."""

    values: Tensor
    """`[N]` differentiable."""
    clipped: Tensor
    """`[N]` bool: the clip removed this token's gradient, or bounded its weight."""


class Objective(Protocol):
    """One policy objective."""

    @property
    def per_rollout(self) -> bool:
        """True if the ratio is that of the whole rollout, not of each token."""
        ...

    def losses(self, logp: Tensor, log_ratio: Tensor, advantage: Tensor) -> TokenLosses:
        """`logp` `[N]` with gradient, `log_ratio` `[N]` without: log(π/π_old) of the token, or the
        rollout's mean of it; `advantage` `[N]` of its rollout."""
        ...

    def weights(self, counts: Tensor, rollout: Tensor) -> Tensor:
        """`[N]` w_t from `[R]` trained tokens of each rollout of the batch."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyLoss:
    """Sums over the micro-batch, already weighted: micro-batches add up to the batch's value."""

    loss: Tensor
    """0-d, differentiable: policy loss + kl_coef · KL loss."""
    kl: Tensor
    """0-d, detached: the KL loss before its coefficient."""
    clipped: Tensor
    """0-d, detached: total weight of the tokens that the clip bounded."""


def policy_loss(
    objective: Objective,
    logp: Tensor,
    log_ratio: Tensor,
    advantage: Tensor,
    weight: Tensor,
    *,
    correction: Tensor | None = None,
    reference: Tensor | None = None,
    kl_coef: float = 0.0,
) -> PolicyLoss:
    """The loss of one micro-batch. `correction` `[N]` from `rollout_correction`; `reference` `[N]`
    log-probabilities of the frozen reference, needed when `kl_coef` > 0."""
    tokens = objective.losses(logp, log_ratio, advantage)
    values = tokens.values if correction is None else tokens.values * correction
    loss = (weight * values).sum()
    kl = logp.new_zeros(())
    if kl_coef > 0 and reference is not None:
        kl = (weight * k3_penalty(logp, reference)).sum()
    return PolicyLoss(
        loss=loss + kl_coef * kl, kl=kl.detach(), clipped=(weight * tokens.clipped).sum().detach()
    )


def clipped_losses(ratio: Tensor, advantage: Tensor, low: float, high: float) -> TokenLosses:
    """max(−A r, −A clip(r, 1 − low, 1 + high)): PPO's clip (arXiv 1707.06347), two bounds as in DAPO."""
    plain, clipped = -advantage * ratio, -advantage * ratio.clamp(1 - low, 1 + high)
    return TokenLosses(values=torch.maximum(plain, clipped), clipped=clipped > plain)


def ratio_of(logp: Tensor, log_ratio: Tensor, limit: float) -> Tensor:
    """`[N]` exp(log_ratio), at most exp(limit); each token's own gradient flows through it."""
    return (logp - logp.detach() + log_ratio.detach()).clamp(max=limit).exp()


def sequence_mean(counts: Tensor, rollout: Tensor) -> Tensor:
    """`[N]` 1 / (R n_r), R the rollouts that have tokens: mean over a rollout's tokens, then over
    rollouts (`seq-mean-token-mean`); over the batch they sum to 1."""
    return 1 / (counts[rollout] * (counts > 0).sum())


def token_mean(counts: Tensor, rollout: Tensor) -> Tensor:
    """`[N]` 1 / Σ n_r: every token of the batch weighs the same (`token-mean`)."""
    return (1 / counts.sum()).expand(len(rollout))
