"""FSDP2 over a scorer's model, and what follows for gradients and for reading weights back.

Each decoder layer is a unit; embedding, final norm and head form the outermost one, whose forward is
the whole scoring, so that the head's chunks find it gathered. Sums, not means: see `ranks`.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from lego_core.training.experts import split_experts
from lego_core.training.logprobs import DeviceBatch, TokenScores, score_tokens
from lego_core.training.model import Policy
from lego_core.training.ranks import Ranks


class Sharded(nn.Module):
    """A policy sharded over ranks; called with a micro-batch it scores it."""

    def __init__(self, model: Policy, ranks: Ranks) -> None:
        super().__init__()
        self.policy = model
        if ranks.experts is not None:
            for experts in split_experts(model, ranks.experts):
                fully_shard(experts, mesh=ranks.shard_mesh)
        for layer in model.model.layers:
            fully_shard(layer, mesh=ranks.all_mesh)
        fully_shard(self, mesh=ranks.all_mesh, reshard_after_forward=True)
        for module in self.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)

    def forward(self, batch: DeviceBatch, temperature: float) -> tuple[Tensor, Tensor]:
        scores = score_tokens(self.policy, batch, temperature=temperature)
        return scores.logp.clone(), scores.entropy  # FSDP hooks outputs, which must be no views


def score_sharded(model: Sharded, batch: DeviceBatch, *, temperature: float) -> TokenScores:
    """As `score_tokens`; every rank must call it."""
    logp, entropy = model(batch, temperature)
    return TokenScores(logp=logp, entropy=entropy)


@torch.no_grad()
def clip_sharded(gradients: Iterable[Tensor], max_norm: float, ranks: Ranks) -> float:
    """As `torch.nn.utils.clip_grad_norm_`, over meshes it cannot span; every element is on one rank."""
    mine = [local(g) for g in gradients]
    squares = torch.stack([g.double().square().sum() for g in mine]).sum()
    norm = float(ranks.sum(squares).sqrt())
    for gradient in mine:
        gradient.mul_(min(1.0, max_norm / (norm + 1e-6)))
    return norm


def local(tensor: Tensor) -> Tensor:
    """This rank's part."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(name: str, tensor: Tensor, ranks: Ranks) -> Tensor:
    """A parameter gathered from its shards and, for experts, from the ranks that hold the others;
    every rank must call it in the same order."""
    full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    holders = ranks.holders(name)
    if holders is None:
        return full
    parts = [torch.empty_like(full) for _ in range(holders.size)]
    torch.distributed.all_gather(parts, full.contiguous(), group=holders.process_group)
    return torch.cat(parts)
