"""The trainer's side of a broadcast, without a trainer and without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage] (documented, not in __all__)

from lego_core.weight_broadcast import Meeting, WeightsSender

LOCALHOST = "127.0.0.1"


class LocalSender:
    """`lego_core.inference.broadcast.Sender` of given tensors, in a thread of this process."""

    def __init__(self) -> None:
        self._sender = WeightsSender()
        self._store: TCPStore | None = None

    def export(self, tensors: Mapping[str, Tensor], file: Path) -> None:
        """Begin it, as the trainer does."""
        self._sender.write(tensors, file)

    async def invite(self, num_engines: int, dtype: str, timeout_s: float) -> Meeting:
        store = self._store = TCPStore(LOCALHOST, 0, is_master=True, wait_for_workers=False)
        port, size = store.port, 1 + num_engines
        return Meeting(host=LOCALHOST, port=port, size=size, dtype=dtype, timeout_s=timeout_s)

    async def broadcast(self, meeting: Meeting) -> None:
        assert self._store is not None
        await asyncio.to_thread(self._sender.send, meeting, self._store, torch.device("cpu"))
