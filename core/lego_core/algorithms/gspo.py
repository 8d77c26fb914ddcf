"""Group Sequence Policy Optimization (arXiv 2507.18071), with the rollout as the sequence.

For rollout r with n_r sampled tokens, in whichever branches:

    log s_r = 1/n_r Σ_t (logp_t − logp_old_t)
    loss_r  = max(−A_r s_r, −A_r clip(s_r, 1 − low, 1 + high))
    loss    = 1/R Σ_r (loss_r + kl_coef · 1/n_r Σ_t kl_t)              (seq-mean-token-mean)

Computed in token form (the paper's GSPO-token), s_rt = sg(s_r) · π_t / sg(π_t): the same value and
gradient, but as a sum over tokens, so that a rollout may be split over several micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lego_core.algorithms.objective import TokenLosses, clipped_losses, ratio_of, sequence_mean

MAX_LOG_RATIO = 10.0
"""Cap on log s, as in verl: exp must stay finite."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gspo:
    """The default objective."""

    clip_low: float
    clip_high: float
    per_rollout: bool = True

    def losses(self, logp: Tensor, log_ratio: Tensor, advantage: Tensor) -> TokenLosses:
        """`log_ratio` `[N]` is log s of each token's rollout."""
        ratio = ratio_of(logp, log_ratio, MAX_LOG_RATIO)
        return clipped_losses(ratio, advantage, self.clip_low, self.clip_high)

    def weights(self, counts: Tensor, rollout: Tensor) -> Tensor:
        """Every rollout weighs the same."""
        return sequence_mean(counts, rollout)


def rollout_log_ratios(
    logp: Tensor,
    old: Tensor,
    rollout: Tensor,
    num_rollouts: int,
    total: Callable[[Tensor], Tensor] = lambda values: values,
) -> tuple[Tensor, Tensor]:
    """`[R]` log s_r and `[R]` n_r from the `[N]` tokens of the whole batch; if they are on several ranks, `total`
    sums over these. Rollouts without tokens get log-ratio 0 and count 0."""
    zeros = logp.new_zeros(num_rollouts)
    counts = total(zeros.index_add(0, rollout, torch.ones_like(logp)))
    sums = total(zeros.index_add(0, rollout, (logp - old).detach()))
    return sums / counts.clamp(min=1), counts
