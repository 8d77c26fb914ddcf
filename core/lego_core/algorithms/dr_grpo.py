"""Dr. GRPO (arXiv 2503.20783): GRPO without its two biases.

    loss = 1/(R L) Σ_r Σ_t l_t,    l_t as GRPO's, A = r − mean (no division by the deviation)

L is a constant, the most tokens a rollout may sample: dividing by each rollout's own length would
make long wrong answers cheap. The advantage is `batching.advantages` with `divide_by_std=False`.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from lego_core.algorithms.grpo import Grpo
from lego_core.algorithms.objective import TokenLosses


@dataclass(frozen=True, kw_only=True, slots=True)
class DrGrpo:
    """GRPO's losses over a constant length."""

    clip_low: float
    clip_high: float
    max_tokens: int
    """L."""
    per_rollout: bool = False

    def losses(self, logp: Tensor, log_ratio: Tensor, advantage: Tensor) -> TokenLosses:
        """As GRPO's."""
        return Grpo(clip_low=self.clip_low, clip_high=self.clip_high).losses(logp, log_ratio, advantage)

    def weights(self, counts: Tensor, rollout: Tensor) -> Tensor:
        """`[N]` 1 / (R L), R the rollouts that have tokens."""
        rollouts = (counts > 0).to(counts.dtype).sum()
        return (1 / (rollouts * self.max_tokens)).expand(len(rollout))
