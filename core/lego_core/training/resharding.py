"""Weights and optimizer state between shards on ranks and the one form that checkpoints have.

A checkpoint does not know how many ranks wrote it: weights are complete and have checkpoint names, optimizer state has
transformers' names, and each rank's part of it knows its place. So it loads into any other layout. Every rank calls
every function; only the first one keeps the complete tensors and writes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from lego_core.training.model import Policy, checkpoint_tensors, copy_tensors, own_tensors
from lego_core.training.ranks import Ranks
from lego_core.training.sharding import whole

STATE = ("step", "exp_avg", "exp_avg_sq")
"""What AdamW remembers of a parameter."""


def whole_weights(model: Policy, ranks: Ranks) -> dict[str, Tensor]:
    """Checkpoint name → a copy on the CPU."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in checkpoint_tensors(model, partial(whole, ranks=ranks)):
        if ranks.rank == 0:
            tensors[name] = tensor.detach().cpu().contiguous().clone()
    return tensors


def optimizer_entries(model: Policy, optimizer: torch.optim.Optimizer, ranks: Ranks) -> dict[str, Tensor]:
    """`NAME.KEY` → what the optimizer remembers about a parameter. Each of several ranks has its part, which knows
    its place in the whole. Shares memory with the optimizer."""
    return {
        f"{name}.{key}": _placed(name, value, ranks)
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def make_room(model: Policy, optimizer: torch.optim.Optimizer, stored: Collection[str]) -> None:
    """Make room in the optimizer for the `stored` entries, and for no others."""
    optimizer.state.clear()
    for name, parameter in model.named_parameters():
        if keys := [key for key in STATE if f"{name}.{key}" in stored]:
            optimizer.state[parameter] = {
                key: torch.zeros(()) if key == "step" else torch.zeros_like(parameter, requires_grad=False)
                for key in keys
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


def _placed(name: str, part: Tensor, ranks: Ranks) -> Tensor:
    """As part of all experts, if it belongs to only some of them: those of a column of ranks."""
    if not ranks.holders(name) or not isinstance(part, DTensor):
        return part
    shape = torch.Size(_shape(name, part, ranks))
    stride = torch.empty(shape, device="meta").stride()
    places = (Shard(0), Shard(0))
    return DTensor.from_local(
        part.to_local(), ranks.expert_mesh, places, run_check=False, shape=shape, stride=stride
    )


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
