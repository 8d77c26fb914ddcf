"""Rollout routing replay (R3): the trainer's routers follow the engine's recorded choices.

Only the indices are replayed. Their weights come from the live router (full softmax, gathered at
the replayed ids, renormalised), so gradients still flow through it. Routes are bound to the
micro-batch they came with, not to a cursor, so a recomputed forward pass replays the same rows.
Invariant (law 7): a row of −1 routes natively; layer l of the model reads column l of the routes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lego_core.errors import TrainingError
from lego_core.training.model import Policy
from lego_core.types import Sample
from lego_harness.errors import UsageError
from lego_harness.types import Routes

ROUTERS = ("Qwen3MoeTopKRouter", "Qwen3_5MoeTopKRouter", "MixtralTopKRouter")
"""transformers' routers that take a softmax over all experts and then the k largest. By name, because importing a
model family takes seconds. Qwen3.5's layers are hybrid, but every one of them has experts."""


@dataclass(slots=True)
class RouterAgreement:
    """Sums over replayed rows of all layers; what the live router would have chosen."""

    rows: int = 0
    overlap: float = 0.0
    top1: float = 0.0


class ReplayRouter(nn.Module):
    """Replaces a layer's router (see `install_replay`) and uses that router's parameters."""

    weight: Tensor
    """`[E, H]`"""
    top_k: int
    hidden_dim: int
    normalises: bool
    """Whether the k weights are made to sum to 1."""
    replayed: Tensor | None
    """`[B·T, k]` int64, −1 where nothing is replayed; None routes natively."""
    agreement: RouterAgreement | None

    def forward(self, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`[B·T, E]` logits, `[B·T, k]` weights, `[B·T, k]` expert ids."""
        hidden = hidden_states.reshape(-1, self.hidden_dim)
        logits = F.linear(hidden, self.weight)
        probs = F.softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
        ids = probs.topk(self.top_k, dim=-1).indices
        if self.replayed is not None:
            has_row = self.replayed[:, :1] >= 0
            if self.agreement is not None and not _is_recomputing():
                _compare(ids, self.replayed, has_row[:, 0], self.agreement)
            ids = torch.where(has_row, self.replayed, ids)
        weights = probs.gather(-1, ids)
        if self.normalises:
            weights = weights / weights.sum(-1, keepdim=True)
        return logits, weights.to(logits.dtype), ids


def _is_recomputing() -> bool:
    """Within backward, activation checkpointing runs the forward pass again; that is not a new row."""
    return torch._C._current_graph_task_id() != -1


def _compare(native: Tensor, replayed: Tensor, has_row: Tensor, total: RouterAgreement) -> None:
    native, replayed = native[has_row], replayed[has_row]
    shared = (replayed[:, :, None] == native[:, None, :]).any(-1)
    total.rows += len(replayed)
    total.overlap += float(shared.double().mean(-1).sum())
    total.top1 += float((replayed[:, 0] == native[:, 0]).sum())


def install_replay(model: Policy) -> list[tuple[int, ReplayRouter]]:
    """Swap every router's class; `(global layer, router)` in order. Empty for a dense model.

    Raises UsageError for experts whose router is not one of `ROUTERS`: their routes would be ignored.
    """
    routers: list[tuple[int, ReplayRouter]] = []
    for index, layer in enumerate(model.model.layers):
        gate = getattr(layer.mlp, "gate", None)
        if isinstance(gate, ReplayRouter) or type(gate).__name__ in ROUTERS:
            routers.append((index, _as_replay_router(gate)))
        elif hasattr(layer.mlp, "experts"):
            raise UsageError(
                f"layer {index} routes by {type(gate).__name__}, which routing replay does not know, expected one "
                f"of {', '.join(ROUTERS)}: set train.routing_replay = false or add it"
            )
    return routers


def _as_replay_router(gate: Any) -> ReplayRouter:
    gate.normalises = bool(getattr(gate, "norm_topk_prob", True))
    gate.__class__ = ReplayRouter
    gate.replayed = gate.agreement = None
    return gate


@contextmanager
def replaying(
    routers: Sequence[tuple[int, ReplayRouter]],
    routes: Tensor | None,
    agreement: RouterAgreement | None = None,
) -> Iterator[None]:
    """Within the context the routers follow `routes` `[B, T, L, K]`; backward must be inside too."""
    for layer, router in routers:
        router.replayed = None if routes is None else routes[:, :, layer].reshape(-1, router.top_k).long()
        router.agreement = agreement
    try:
        yield
    finally:
        for _, router in routers:
            router.replayed = router.agreement = None


def check_routes(
    samples: Sequence[Sample], layers: Sequence[int], *, num_layers: int, num_experts: int, top_k: int
) -> None:
    """Raise TrainingError for routes that are well-shaped and wrong, or not even that.

    `layers` are the sparse ones; engines report columns for dense layers too, which mean nothing.
    """
    for sample in samples:
        if sample.routes is None:
            continue
        expected = (len(sample.ids), num_layers, top_k)
        if sample.routes.shape != expected:
            raise TrainingError(
                f"routes of rollout {sample.rollout_id} have shape {sample.routes.shape}, expected {expected}"
            )
        if fault := _fault(sample.routes[:, list(layers)], num_experts):
            raise TrainingError(
                f"routes of rollout {sample.rollout_id}: {fault}; they are not replayed blindly"
            )


def _fault(routes: Routes, num_experts: int) -> str:
    if routes.size and (routes.min() < -1 or routes.max() >= num_experts):
        return f"expert ids reach from {routes.min()} to {routes.max()}, expected −1 to {num_experts - 1}"
    absent = routes < 0
    if (absent.any(-1) != absent.all(-1)).any():
        return "a row is recorded only in part, expected all of its experts or −1 throughout"
    ordered = np.sort(routes, axis=-1)
    repeated = (ordered[..., 1:] == ordered[..., :-1]).any(-1) & ~absent.any(-1)
    if repeated.any():
        return f"{int(repeated.sum())} rows name an expert twice, as an engine that captured nothing does"
    return ""


def coverage(samples: Sequence[Sample], layers: Sequence[int]) -> float:
    """Share of the rows that should be replayed (all but each sample's last position) and are."""
    wanted = sum(len(s.ids) - 1 for s in samples) * len(layers)
    present = sum(int((s.routes[:-1, list(layers), 0] >= 0).sum()) for s in samples if s.routes is not None)
    return present / wanted if wanted else 0.0
