"""Whatever Ray says of a trainer's ranks is one line of ours. Actors and GPUs are stand-ins here; real ones die in
`test_ray_trainer.py`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.exceptions import ActorDiedError, OutOfMemoryError, RayError, RayTaskError, WorkerCrashedError

from lego_core.errors import TrainingError
from lego_core.training.ray_ranks import RayRanks, make_ranks
from lego_core.training.ray_trainer import RayTrainer
from lego_harness.errors import UsageError

BROKEN = RayTaskError("export", "Traceback", RuntimeError("connection closed by peer"))
"""What the other ranks say when one has died."""
MEMORY = OutOfMemoryError(
    "Task was killed due to the node running low on memory.\nMemory on the node: 23 GB\n…"
)


def _trainer(monkeypatch: pytest.MonkeyPatch, *errors: RayError) -> RayTrainer:
    """Ranks that fail so, in this order."""

    async def fail(turn: int, error: RayError) -> None:
        for _ in range(turn):
            await asyncio.sleep(0)
        raise error

    def actor(turn: int, error: RayError) -> Any:
        return SimpleNamespace(export=SimpleNamespace(remote=lambda _: fail(turn, error)))

    monkeypatch.setattr(ray, "put", lambda value: value)
    ranks = RayRanks([actor(turn, error) for turn, error in enumerate(errors)])
    return RayTrainer(ranks=ranks, pid=1, timeout_s=60)


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        (
            [MEMORY],
            "Ray ended a trainer process because the machine ran out of memory; lower train.micro_batch",
        ),
        ([BROKEN, MEMORY], "Ray ended a trainer process because the machine ran out of memory"),
        ([BROKEN, ActorDiedError()], "the trainer process died; resume the run$"),
        ([BROKEN], "RuntimeError: connection closed by peer"),
        ([WorkerCrashedError()], "in Ray: WorkerCrashedError: .*; resume the run$"),
    ],
)
async def test_a_rank_that_ray_ends_is_one_line_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, errors: list[RayError], told: str
) -> None:
    with pytest.raises(TrainingError) as caught:
        await _trainer(monkeypatch, *errors).export(Path("w"))
    assert caught.match(f"^exporting weights to w failed:? {told}")
    assert "\n" not in str(caught.value)


def test_more_ranks_than_gpus_are_refused_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 8.0, "GPU": 2.0})
    with pytest.raises(
        UsageError, match=r"train.num_ranks = 4 takes as many GPUs, and 2 can be used here: set it to 2"
    ):
        make_ranks(4, {})
