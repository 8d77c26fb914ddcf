"""How far apart two sets of log-probabilities of the same tokens are.

Pure functions of `[N]` tensors, N trained tokens; scalars are returned as 0-d tensors, or as floats
where stated. Reductions run in float64. Definitions are those of the paper's Tables 3 and 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """Rollout against trainer over the same sampled tokens."""

    pearson_r: float | None
    """None if it is undefined: a single token, or constant probabilities."""
    pearson_r_logp: float | None
    """Of the log-probabilities, where unlikely tokens dominate."""
    mean_abs_dp: float
    mean_abs_dlogp: float
    k3: float


def agreement(trainer: Tensor, rollout: Tensor) -> Agreement:
    """Tables 3 and 7 of two `[N]` log-probability vectors."""
    new, old = trainer.double(), rollout.double()
    r, r_logp = float(pearson(new.exp(), old.exp())), float(pearson(new, old))
    return Agreement(
        pearson_r=r if isfinite(r) else None,
        pearson_r_logp=r_logp if isfinite(r_logp) else None,
        mean_abs_dp=float((new.exp() - old.exp()).abs().mean()),
        mean_abs_dlogp=float((new - old).abs().mean()),
        k3=float(k3(new - old).mean()),
    )


def rollout_gaps(trainer: Tensor, rollout: Tensor, index: Tensor) -> Tensor:
    """`[G]` |mean over a rollout's tokens of Δlogp| for the G rollouts that `index` `[N]` names: the last columns
    of Table 3. Differences that cancel within a rollout do not count, because GSPO's ratio does not see them."""
    _, place = index.unique(return_inverse=True)
    sums = torch.zeros(int(place.max()) + 1, dtype=torch.float64).index_add(
        0, place, (trainer - rollout).double()
    )
    return (sums / place.bincount()).abs()


def k3(d: Tensor) -> Tensor:
    """`[N]` exp(d) − d − 1 ≥ 0 of a log-ratio d: Schulman's unbiased, low-variance KL estimate.

    `expm1` keeps it exact near 0, where agreement is measured.
    """
    return torch.expm1(d) - d


def k3_penalty(current: Tensor, reference: Tensor) -> Tensor:
    """`[N]` KL loss per token, differentiable in `current`: k3 of d = reference − current. Bounds as in verl (d to
    ±20, the estimate to ±10), so that one outlier cannot dominate the gradient."""
    d = (reference - current).clamp(-20, 20)
    return k3(d).clamp(-10, 10)


def pearson(x: Tensor, y: Tensor) -> Tensor:
    """Pearson correlation of two `[N]` vectors; 1 when both are constant and equal. NaN when exactly one is
    constant, or both are and differ: there is no correlation."""
    if torch.equal(x, y):
        return torch.ones((), dtype=torch.float64)
    dx, dy = x.double() - x.double().mean(), y.double() - y.double().mean()
    return (dx * dy).sum() / (dx.norm() * dy.norm())
