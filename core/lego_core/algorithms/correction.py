"""Correction for an engine that differs slightly from the trainer: bounded importance weights per token.

    w_t = π_old_t / π_rollout_t            π_old the trainer's at the start of the step
    truncate:  min(w_t, bound)             truncated importance sampling (TIS)
    mask:      w_t where 1/bound ≤ w_t ≤ bound, else 0        (masked importance sampling, IcePop)

Multiplies each token's policy loss, not its KL. It covers both rounding and staleness. Off by default: with
routing replay the engine's log-probabilities match the trainer's, and the correction biases what it cuts. It
works per token because the product over a long rollout carries no information any more.
"""

from __future__ import annotations

import torch
from torch import Tensor

MAX_LOG_WEIGHT = 20.0
"""Bound on |log w|, as in verl: exp must stay finite."""


def rollout_correction(old: Tensor, rollout: Tensor, *, kind: str, bound: float) -> Tensor | None:
    """`[N]` weights without gradient from `[N]` log-probabilities; None when `kind` is `off`."""
    if kind == "off":
        return None
    weight = (old.detach() - rollout).clamp(-MAX_LOG_WEIGHT, MAX_LOG_WEIGHT).exp()
    if kind == "truncate":
        return weight.clamp(max=bound)
    return torch.where((weight >= 1 / bound) & (weight <= bound), weight, torch.zeros_like(weight))
