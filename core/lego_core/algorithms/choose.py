"""The objective that a recipe names. The only module that knows all of them."""

from __future__ import annotations

from lego_core.algorithms.cispo import Cispo
from lego_core.algorithms.dr_grpo import DrGrpo
from lego_core.algorithms.grpo import Dapo, Grpo
from lego_core.algorithms.gspo import Gspo
from lego_core.algorithms.objective import Objective
from lego_core.config import TrainConfig


def make_objective(config: TrainConfig, *, max_tokens: int) -> Objective:
    """`max_tokens` is the most a rollout may sample; only Dr. GRPO uses it."""
    low, high = config.clip_low, config.clip_high
    if config.objective == "grpo":
        return Grpo(clip_low=low, clip_high=high)
    if config.objective == "dapo":
        return Dapo(clip_low=low, clip_high=high)
    if config.objective == "dr_grpo":
        return DrGrpo(clip_low=low, clip_high=high, max_tokens=max_tokens)
    if config.objective == "cispo":
        return Cispo(clip_low=low, clip_high=high)
    return Gspo(clip_low=low, clip_high=high)
