"""Weights and optimizer state between shards on ranks and the one form that checkpoints have.

A checkpoint does not know how many ranks wrote it: weights carry checkpoint names, optimizer state is
by position among the model's parameters, everything is whole. So it loads into any other layout.
Every function is called by every rank; only the first one keeps what is whole, and writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from lego_core.training.model import Policy, checkpoint_tensors, copy_tensors, own_tensors
from lego_core.training.ranks import Ranks
from lego_core.training.sharding import whole


def whole_weights(model: Policy, ranks: Ranks) -> dict[str, Tensor]:
    """Checkpoint name → a copy on the CPU."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in checkpoint_tensors(model, partial(whole, ranks=ranks)):
        if ranks.rank == 0:
            tensors[name] = tensor.detach().cpu().contiguous().clone()
    return tensors


def whole_optimizer_state(model: Policy, optimizer: torch.optim.Optimizer, ranks: Ranks) -> dict[str, Any]:
    """As `optimizer.state_dict()` of one rank."""
    if ranks.size == 1:
        return optimizer.state_dict()
    named = list(model.named_parameters())
    state: dict[int, dict[str, Any]] = {}
    for index, (name, parameter) in enumerate(named):
        entries = {k: _gathered(name, v, ranks) for k, v in optimizer.state.get(parameter, {}).items()}
        if ranks.rank == 0 and entries:
            state[index] = entries
    group = {k: v for k, v in optimizer.param_groups[0].items() if k != "params"}
    return {"state": state, "param_groups": [{**group, "params": list(range(len(named)))}]}


def load_optimizer_state(
    model: Policy, optimizer: torch.optim.Optimizer, stored: dict[str, Any], ranks: Ranks
) -> None:
    """The way back; of several ranks nothing of `stored`, which may be mapped from a file, is kept."""
    if ranks.size == 1:
        optimizer.load_state_dict(stored)
        return
    for index, (name, parameter) in enumerate(model.named_parameters()):
        entries = stored["state"].get(index, {})
        optimizer.state[parameter] = {
            key: (_shard(name, value, parameter, ranks) if value.ndim else value).clone()
            for key, value in entries.items()
        }


@torch.no_grad()
def load_weights(model: Policy, tensors: Mapping[str, Tensor], ranks: Ranks) -> None:
    """Copy checkpoint tensors into the model; raises KeyError naming a missing or surplus one."""
    if ranks.size == 1:
        copy_tensors(dict(checkpoint_tensors(model)), tensors)
        return
    parts = own_tensors(model)
    full = {name: torch.empty(_shape(name, part, ranks), dtype=part.dtype) for name, part in parts.items()}
    copy_tensors(dict(checkpoint_tensors(model, lambda name, _: full[name])), tensors)
    for name, part in parts.items():
        part.copy_(_shard(name, full[name].to(part.device), part, ranks))


def _gathered(name: str, value: Any, ranks: Ranks) -> Any:
    return whole(name, value, ranks).cpu() if isinstance(value, DTensor) else value


def _shape(name: str, part: Tensor, ranks: Ranks) -> list[int]:
    holders = ranks.holders(name)
    return [part.shape[0] * (holders.size if holders else 1), *part.shape[1:]]


def _shard(name: str, full: Tensor, like: Tensor, ranks: Ranks) -> Tensor:
    """This rank's part of a whole tensor, laid out as `like`; nothing is sent."""
    if holders := ranks.holders(name):
        full = full.chunk(holders.size)[holders.rank]
    if not isinstance(like, DTensor):
        return full
    return distribute_tensor(full, like.device_mesh, like.placements, src_data_rank=None)
