"""CISPO (MiniMax-M1, arXiv 2506.13585): the clip bounds a token's weight but never removes its gradient.

    r_t  = π_t / π_old_t
    l_t  = −sg(clip(r_t, 1 − low, 1 + high)) A_t log π_t
    loss = Σ_r Σ_t l_t / Σ_r n_r               (token-mean)

The paper uses no lower bound, which is `clip_low` = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from lego_core.algorithms.grpo import MAX_LOG_RATIO
from lego_core.algorithms.objective import TokenLosses, token_mean


@dataclass(frozen=True, kw_only=True, slots=True)
class Cispo:
    """REINFORCE with clipped importance weights."""

    clip_low: float
    clip_high: float
    per_rollout: bool = False

    def losses(self, logp: Tensor, log_ratio: Tensor, advantage: Tensor) -> TokenLosses:
        """`log_ratio` `[N]` is the token's own."""
        ratio = log_ratio.detach().clamp(max=MAX_LOG_RATIO).exp()
        bounded = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        return TokenLosses(values=-bounded * advantage * logp, clipped=ratio != bounded)

    def weights(self, counts: Tensor, rollout: Tensor) -> Tensor:
        """Every token weighs the same."""
        return token_mean(counts, rollout)
