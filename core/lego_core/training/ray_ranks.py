"""Several trainer ranks, an actor each, behind one handle that looks like one actor.

Every call goes to all ranks at once, as collectives need, and rank 0's answer is the answer. A rank
that dies or refuses ends the call: the others wait in a collective that will not come, so whoever
gets the error closes them all.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import ray
import torch
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]

from lego_core.training.ranks import join_ranks
from lego_core.training.trainer import Trainer, TrainerSpec


class RankMethods:
    """What a trainer actor needs to become a rank; mixed into it by `ray_trainer`."""

    _trainer: Trainer

    def offer_address(self) -> tuple[str, int]:
        """Where rank 0 will wait for the others: this node, a port that is free now."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return ray.util.get_node_ip_address(), probe.getsockname()[1]

    def pid(self) -> int:
        return os.getpid()

    def join(self, spec: TrainerSpec, rank: int, address: tuple[str, int]) -> None:
        """Form the process group with the others and load this rank's part of the model."""
        store = TCPStore(*address, world_size=spec.config.num_ranks, is_master=rank == 0)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._trainer = Trainer(spec, join_ranks(spec.config, rank, store, device))


@dataclass(frozen=True, slots=True)
class AllRanks:
    """`group.method.remote(…)` calls every actor and awaits rank 0's answer."""

    actors: Sequence[Any]

    def __getattr__(self, method: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments: self._call(method, arguments))

    async def _call(self, method: str, arguments: Sequence[Any]) -> Any:
        shared = [ray.put(argument) for argument in arguments]
        answers = await asyncio.gather(*[getattr(actor, method).remote(*shared) for actor in self.actors])
        return answers[0]

    async def join(self, spec: TrainerSpec) -> None:
        address = await self.actors[0].offer_address.remote()
        await asyncio.gather(*[a.join.remote(spec, rank, address) for rank, a in enumerate(self.actors)])


def gpus_per_rank() -> int:
    """One where Ray knows of any."""
    return 1 if ray.cluster_resources().get("GPU") else 0
