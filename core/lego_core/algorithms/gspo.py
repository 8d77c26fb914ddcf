"""Group Sequence Policy Optimization (arXiv 2507.18071), over the rollout.

For rollout r with n_r sampled tokens, whatever branches they stand in:

    log s_r = 1/n_r Σ_t (logp_t − logp_old_t)
    loss_r  = max(−A_r s_r, −A_r clip(s_r, 1 − low, 1 + high))
    loss    = 1/R Σ_r (loss_r + kl_coef · 1/n_r Σ_t kl_t)              (seq-mean-token-mean)

Computed in token form, s_rt = sg(s_r) · π_t / sg(π_t): the same value and gradient, but a sum over
tokens, so that a rollout may lie in several micro-batches. What this needs is that n_r, log s_r
and R are known before any part of the loss is (`rollout_log_ratios`).

Shapes: N tokens of a micro-batch, R rollouts of the whole batch; `rollout` `[N]` maps one to the
other. Pure functions; no state, no model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lego_core.algorithms.divergence import k3_penalty

MAX_LOG_RATIO = 10.0
"""Cap of log s, as in verl: exp must stay finite."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GspoLoss:
    """Sums over the micro-batch, already weighted: micro-batches add up to the batch's value."""

    loss: Tensor
    """0-d, differentiable: policy loss + kl_coef · KL loss."""
    kl: Tensor
    """0-d, detached: the KL loss before its coefficient."""
    clipped: Tensor
    """0-d, detached: weight of the tokens whose gradient the clip removed, in [0, 1]."""


def rollout_log_ratios(
    logp: Tensor, old: Tensor, rollout: Tensor, num_rollouts: int
) -> tuple[Tensor, Tensor]:
    """`[R]` log s_r and `[R]` n_r from the `[N]` tokens of the whole batch.

    Rollouts without tokens get log-ratio 0 and count 0.
    """
    zeros = logp.new_zeros(num_rollouts)
    counts = zeros.index_add(0, rollout, torch.ones_like(logp))
    sums = zeros.index_add(0, rollout, (logp - old).detach())
    return sums / counts.clamp(min=1), counts


def token_weights(counts: Tensor, rollout: Tensor) -> Tensor:
    """`[N]` weights 1 / (R n_r), R the rollouts that have tokens; over the batch they sum to 1."""
    return 1 / (counts[rollout] * (counts > 0).sum())


def gspo_loss(
    logp: Tensor,
    log_ratio: Tensor,
    advantage: Tensor,
    weight: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    reference: Tensor | None = None,
    kl_coef: float = 0.0,
) -> GspoLoss:
    """The loss of one micro-batch.

    `logp` `[N]` current log-probabilities, with gradient; `log_ratio` `[N]` log s of each token's
    rollout; `advantage` `[N]` of its rollout; `weight` `[N]` from `token_weights`; `reference`
    `[N]` log-probabilities of the frozen reference, needed when `kl_coef` > 0.
    """
    ratio = (logp - logp.detach() + log_ratio.detach()).clamp(max=MAX_LOG_RATIO).exp()
    clipped_ratio = ratio.clamp(1 - clip_low, 1 + clip_high)
    plain, clipped = -advantage * ratio, -advantage * clipped_ratio
    loss = (weight * torch.maximum(plain, clipped)).sum()
    kl = logp.new_zeros(())
    if kl_coef > 0 and reference is not None:
        kl = (weight * k3_penalty(logp, reference)).sum()
    return GspoLoss(
        loss=loss + kl_coef * kl,
        kl=kl.detach(),
        clipped=(weight * (clipped > plain)).sum().detach(),
    )
