"""AdamW from the recipe, and the guard in front of it.

Invariant: no non-finite gradient ever reaches the weights.
"""

from __future__ import annotations

import torch
from torch import nn

from lego_core.config import TrainConfig
from lego_core.errors import TrainingError
from lego_core.training.model import Policy


def make_optimizer(model: Policy, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW over every parameter, constant learning rate."""
    return torch.optim.AdamW(
        model.parameters(),
        lr=config.learning_rate,
        betas=config.adam_betas,
        eps=config.adam_eps,
        weight_decay=config.weight_decay,
    )


def clip_gradients(model: Policy, max_norm: float) -> float:
    """Scale all gradients to a global norm of at most `max_norm`; returns the norm before.

    Raises TrainingError naming the first weight with a non-finite gradient.
    """
    norm = float(nn.utils.clip_grad_norm_(model.parameters(), max_norm))
    if norm == norm and norm != float("inf"):
        return norm
    bad = [n for n, p in model.named_parameters() if p.grad is not None and not p.grad.isfinite().all()]
    raise TrainingError(
        f"gradient norm is {norm}, expected a finite number (first non-finite gradient: {bad[0] if bad else 'none'}); "
        "the update is refused: lower train.learning_rate or look at the batch's log-probabilities"
    )
