"""AdamW from the recipe, its learning rate, and the guard before it.

Invariant: no non-finite gradient ever reaches the weights.
"""

from __future__ import annotations

from math import isfinite
from typing import NoReturn

import torch
from torch import nn

from lego_core.config import TrainConfig
from lego_core.errors import TrainingError
from lego_core.training.model import Policy
from lego_core.training.ranks import Ranks
from lego_core.training.sharding import clip_sharded, local


def make_optimizer(model: Policy, config: TrainConfig, ranks: Ranks) -> torch.optim.AdamW:
    """AdamW over every parameter; experts that are split over ranks form a group of their own, since
    one operation cannot span two meshes."""
    groups: dict[bool, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        groups.setdefault(ranks.holders(name) is not None, []).append(parameter)
    return torch.optim.AdamW(
        [{"params": group} for group in groups.values()],
        lr=config.learning_rate,
        betas=config.adam_betas,
        eps=config.adam_eps,
        weight_decay=config.weight_decay,
    )


def learning_rate(config: TrainConfig, step: int) -> float:
    """The learning rate of a 1-based step: linear from `learning_rate` to the share of it that is left at the last
    step."""
    done = (step - 1) / max(1, config.steps - 1)
    return config.learning_rate * (1 - done * (1 - config.learning_rate_left))


def set_learning_rate(optimizer: torch.optim.AdamW, rate: float) -> None:
    """For every parameter."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def clip_gradients(model: Policy, max_norm: float, ranks: Ranks) -> float:
    """Scale all gradients to a global norm of at most `max_norm`; returns the norm before.

    Raises TrainingError, on every rank, naming the first weight with a non-finite gradient.
    """
    if ranks.size == 1:
        norm = float(nn.utils.clip_grad_norm_(model.parameters(), max_norm))
    else:
        norm = clip_sharded([p.grad for p in model.parameters() if p.grad is not None], max_norm, ranks)
    if not isfinite(norm):
        _refuse(model, norm, ranks)
    return norm


def _refuse(model: Policy, norm: float, ranks: Ranks) -> NoReturn:
    mine = [
        n for n, p in model.named_parameters() if p.grad is not None and not local(p.grad).isfinite().all()
    ]
    bad = [name for names in ranks.gather(mine) for name in names]
    raise TrainingError(
        f"gradient norm is {norm}, expected a finite number (first non-finite gradient: {bad[0] if bad else 'none'}); "
        "the update is refused: lower train.learning_rate or look at the batch's log-probabilities"
    )
