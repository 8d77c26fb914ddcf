"""The ranks of a trainer: who holds which part of the weights and computes which part of a batch.

    ranks = data × context        every rank is in both; a row of `context` ranks shares a micro-batch
    ranks = shards × experts      another view of the same ranks: a row of `experts` ranks holds a layer's
                                  experts once, ranks of one column shard them further

All parameters are sharded over all ranks (FSDP2), experts over their column. Losses are sums over
tokens, so gradients are summed, never averaged. Invariant: any layout computes what one rank would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from lego_core.config import TrainConfig
from lego_core.training.exchange import Group

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks:
    """This process among the ranks."""

    rank: int = 0
    size: int = 1
    device: str = "cpu"
    """Where collectives happen."""
    context: Group | None = None
    """Ranks that share a micro-batch, each with a slice of its row."""
    experts: Group | None = None
    """Ranks that hold each layer's experts once."""
    all_mesh: DeviceMesh | None = None
    shard_mesh: DeviceMesh | None = None
    """The ranks over which a rank's own experts are sharded further."""
    expert_mesh: DeviceMesh | None = None
    """`experts × shards`: how all experts of a layer are split, first one and then the other."""
    writers: Any = None
    """Process group of all ranks on the CPU, for everything besides training."""

    @property
    def context_size(self) -> int:
        """Ranks that share a micro-batch."""
        return self.context.size if self.context else 1

    @property
    def data_rank(self) -> int:
        return self.rank // self.context_size

    @property
    def data_size(self) -> int:
        return self.size // self.context_size

    def share(self, batches: Sequence[T]) -> list[tuple[T, bool]]:
        """This rank's micro-batches, and whether each is counted. All ranks do equally many, because collectives
        need every rank; surplus ones are repetitions that do not count."""
        rounds = -(-len(batches) // self.data_size)
        turns = [i * self.data_size + self.data_rank for i in range(rounds)]
        return [(batches[i % len(batches)], i < len(batches)) for i in turns]

    def holders(self, name: str) -> Group | None:
        """Ranks that hold the other parts of a weight that is split before it is sharded, such as an expert's."""
        return self.experts if ".experts." in name else None

    def sum(self, values: Tensor) -> Tensor:
        """Over all ranks."""
        if self.size == 1:
            return values
        moved = values.to(self.device, copy=True)
        dist.all_reduce(moved)
        return moved.to(values.device)

    def gather(self, value: T) -> list[T]:
        """Everybody's, by rank."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found


ALONE = Ranks()
"""One process, no process group."""


def pick_device() -> torch.device:
    """Of this process's model."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def join_ranks(config: TrainConfig, rank: int, store: Any) -> Ranks:
    """Form the process group; every rank calls this with the same config and store."""
    size, device = config.num_ranks, pick_device()
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    context, experts = config.context_parallel, config.expert_parallel
    by_data = init_device_mesh(device.type, (size // context, context), mesh_dim_names=("data", "context"))
    by_expert = init_device_mesh(
        device.type, (size // experts, experts), mesh_dim_names=("shards", "experts")
    )
    columns = by_expert.mesh.T.contiguous()
    return Ranks(
        rank=rank,
        size=size,
        device=device.type,
        context=_group(by_data["context"]) if context > 1 else None,
        experts=_group(by_expert["experts"]) if experts > 1 else None,
        all_mesh=init_device_mesh(device.type, (size,), mesh_dim_names=("all",)),
        shard_mesh=by_expert["shards"],
        expert_mesh=DeviceMesh(device.type, columns, mesh_dim_names=("experts", "shards")),
        writers=dist.new_group(backend="gloo"),
    )


def _group(mesh: DeviceMesh) -> Group:
    return Group(process_group=mesh.get_group(), rank=mesh.get_local_rank(), size=mesh.size())
