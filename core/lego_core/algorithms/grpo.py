"""GRPO (arXiv 2402.03300) and DAPO (arXiv 2503.14476): PPO's clip on each token's own ratio.

    r_t  = π_t / π_old_t
    l_t  = max(−A_t r_t, −A_t clip(r_t, 1 − low, 1 + high))
    GRPO   loss = 1/R Σ_r 1/n_r Σ_t l_t        (seq-mean-token-mean)
    DAPO   loss = Σ_r Σ_t l_t / Σ_r n_r        (token-mean: long rollouts weigh more)

DAPO's other parts are elsewhere: clip-higher is `clip_high` > `clip_low`, dynamic sampling is the
filter of groups without variance (`batching.samples`), and overlong shaping belongs to the grader.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from lego_core.algorithms.objective import (
    TokenLosses,
    clipped_losses,
    ratio_of,
    sequence_mean,
    token_mean,
)

MAX_LOG_RATIO = 20.0
"""Cap of log r, as in verl."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grpo:
    """GRPO as published."""

    clip_low: float
    clip_high: float
    per_rollout: bool = False

    def losses(self, logp: Tensor, log_ratio: Tensor, advantage: Tensor) -> TokenLosses:
        """`log_ratio` `[N]` is the token's own."""
        ratio = ratio_of(logp, log_ratio, MAX_LOG_RATIO)
        return clipped_losses(ratio, advantage, self.clip_low, self.clip_high)

    def weights(self, counts: Tensor, rollout: Tensor) -> Tensor:
        """Every rollout weighs the same."""
        return sequence_mean(counts, rollout)


@dataclass(frozen=True, kw_only=True, slots=True)
class Dapo:
    """The same losses, with the same weight for every token."""

    clip_low: float
    clip_high: float
    per_rollout: bool = False

    def losses(self, logp: Tensor, log_ratio: Tensor, advantage: Tensor) -> TokenLosses:
        """As GRPO's."""
        return Grpo(clip_low=self.clip_low, clip_high=self.clip_high).losses(logp, log_ratio, advantage)

    def weights(self, counts: Tensor, rollout: Tensor) -> Tensor:
        """Every token weighs the same."""
        return token_mean(counts, rollout)
