"""The process of one trainer rank: a `Trainer` behind Ray, and how the ranks find each other.

Created empty, so that a model that does not load is an answer and not a death. Calls run one at a time,
in order, except the one that waits for the disk. Knows no controller.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage] (documented, not in __all__)

from lego_core.training.checkpoint import Writing
from lego_core.training.ranks import ALONE, Ranks, join_ranks
from lego_core.training.trainer import Trainer, TrainerSpec
from lego_core.types import Sample, TrainMetrics
from lego_core.weight_broadcast import Meeting

Address = tuple[str, int]


class TrainerActor:
    """One rank; every method but `offer_store` and `invite` is called on all of them."""

    _trainer: Trainer
    _writing: Writing
    _meeting: TCPStore | None = None
    _store: TCPStore

    def offer_store(self) -> Address:
        """Open the store at which the ranks meet, on this node and a free port; called on the first rank."""
        host = ray.util.get_node_ip_address()
        self._store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
        return host, self._store.port

    def start(self, spec: TrainerSpec, rank: int, store: Address | None) -> int:
        """Load the model, or this rank's part of it when all have met at `store`; returns the process id."""
        self._trainer = Trainer(spec, ALONE if store is None else self._join(spec, rank, store))
        return os.getpid()

    def _join(self, spec: TrainerSpec, rank: int, store: Address) -> Ranks:
        if rank > 0:
            self._store = TCPStore(*store, is_master=False)
        return join_ranks(spec.config, rank, self._store)

    def train_step(self, samples: Sequence[Sample], step: int) -> TrainMetrics:
        return self._trainer.train_step(samples, step)

    def score(self, sample: Sample) -> NDArray[np.float32]:
        return self._trainer.score(sample)

    def export(self, path: Path) -> None:
        self._trainer.export(path)

    def invite(self, num_engines: int, dtype: str, timeout_s: float) -> Meeting:
        """Open the store of one broadcast, on this node and a free port; called on the first rank."""
        host, limit = ray.util.get_node_ip_address(), timedelta(seconds=timeout_s)
        self._meeting = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=limit)
        port, size = self._meeting.port, 1 + num_engines
        return Meeting(host=host, port=port, size=size, dtype=dtype, timeout_s=timeout_s)

    def broadcast(self, meeting: Meeting) -> None:
        """Send what was exported last to the engines that were invited."""
        if self._meeting is not None:
            self._trainer.broadcast(meeting, self._meeting)
            self._meeting = None

    def begin_checkpoint(self, directory: Path, state: dict[str, Any]) -> None:
        self._writing = self._trainer.begin_checkpoint(directory, state)

    @ray.method(concurrency_group="disk")
    def end_checkpoint(self) -> None:
        """Wait for the checkpoint that was begun last, while everything else goes on."""
        self._writing.wait()

    def load_checkpoint(self, directory: Path) -> dict[str, Any]:
        return self._trainer.load_checkpoint(directory)
