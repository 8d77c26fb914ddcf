"""What a step measured: agreement of trainer and engine, entropy, routing, means over updates.

Invariant: agreement compares only tokens that the weights at the start of the step sampled; what
other versions sampled differs because the weights do, and is reported by its lag.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lego_core.algorithms.divergence import agreement, rollout_gaps
from lego_core.training.logprobs import DeviceBatch
from lego_core.training.ranks import Ranks
from lego_core.training.routing_replay import RouterAgreement
from lego_core.training.update import Pass
from lego_core.types import LagAgreement, TrainMetrics


def step_metrics(
    batches: Sequence[DeviceBatch],
    passes: Sequence[Pass],
    grad_norms: Sequence[float],
    router: RouterAgreement,
    ranks: Ranks,
    *,
    version: int,
    coverage: float,
    seconds: float,
) -> TrainMetrics:
    """Agreement, entropy and routing come from the first pass, with the weights at the start of the step. `batches`
    are this rank's; the result is that of all ranks."""
    trainer, rollout, entropy, lag, index = _tokens(batches, passes[0], ranks, version)
    fresh = lag == 0
    agreed = agreement(trainer[fresh], rollout[fresh]) if fresh.any() else None
    rows, overlap, top1 = ranks.sum(
        torch.tensor([router.rows, router.overlap, router.top1], dtype=torch.float64)
    ).tolist()
    return TrainMetrics(
        loss=_mean([p.loss for p in passes]),
        grad_norm=_mean(grad_norms),
        clip_fraction=_mean([p.clipped for p in passes]),
        kl_loss=_mean([p.kl for p in passes]),
        entropy=float(entropy.double().mean()),
        pearson_r=agreed and agreed.pearson_r,
        mean_abs_dlogp=agreed and agreed.mean_abs_dlogp,
        k3=agreed and agreed.k3,
        pearson_r_logp=agreed and agreed.pearson_r_logp,
        mean_abs_dp=agreed and agreed.mean_abs_dp,
        routing_coverage=coverage,
        expert_overlap=overlap / rows if rows else None,
        top1_agreement=top1 / rows if rows else None,
        trained_tokens=len(trainer),
        seconds={"step": seconds},
        by_lag=_by_lag(trainer, rollout, lag),
        rollout_gap=_quantiles(rollout_gaps(trainer[fresh], rollout[fresh], index[fresh])) if agreed else {},
    )


def _tokens(
    batches: Sequence[DeviceBatch], first: Pass, ranks: Ranks, version: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """`[N]` trainer's and engine's log-probability, entropy, lag and rollout of every trained token of the batch."""
    mine = [
        torch.stack(
            [
                s.logp,
                b.rollout_logprobs,
                s.entropy,
                *(x.to(s.logp.dtype) for x in (version - b.versions, b.rollout)),
            ]
        )
        for b, s in zip(batches, first.scores, strict=True)
        if b.is_counted
    ]
    of_all = [part for parts in ranks.gather([m.cpu() for m in mine]) for part in parts]
    trainer, rollout, entropy, lag, index = torch.cat(of_all, 1)
    return trainer, rollout, entropy, lag.long(), index.long()


def _by_lag(trainer: Tensor, rollout: Tensor, lag: Tensor) -> dict[str, LagAgreement]:
    found: dict[str, LagAgreement] = {}
    for value in lag.unique().tolist():
        of_lag = lag == value
        agreed = agreement(trainer[of_lag], rollout[of_lag])
        found[str(value)] = LagAgreement(
            tokens=int(of_lag.sum()), mean_abs_dlogp=agreed.mean_abs_dlogp, k3=agreed.k3
        )
    return found


def _quantiles(gaps: Tensor) -> dict[str, float]:
    return {f"p{q}": float(gaps.quantile(q / 100)) for q in (50, 90, 99)}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
