"""A rollout worker that dies or hangs is one line, in bounded time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from lego_core.cluster import RolloutPool
from lego_harness.errors import InfrastructureError
from lego_harness.rollout import RolloutSpec
from lego_harness.types import Budget, Sampling, Task


class Worker:
    """As a Ray actor's handle: `worker.run.remote(spec)`."""

    def __init__(self, *, answers: bool) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.run = SimpleNamespace(remote=self._run)

    async def _run(self, spec: RolloutSpec) -> str:
        self.asked.append(spec.id)
        if not self.answers:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return spec.id


def spec(name: str) -> RolloutSpec:
    task = Task(id="t", path=Path(), instruction="", verifier_timeout_s=0.01)
    return RolloutSpec(id=name, task=task, epoch=0, sampling=Sampling(), budget=Budget(max_seconds=0.02))


async def test_a_worker_that_gives_no_answer_is_named_with_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lego_core.cluster.AROUND_ROLLOUT_S", 0.02)
    pool = RolloutPool([Worker(answers=False)], concurrency=1)
    with pytest.raises(InfrastructureError, match=r"rollout r0: its worker gave no answer within 0\.05 s"):
        await pool.run(spec("r0"))


async def test_who_asks_first_begins_first_on_the_least_loaded_worker() -> None:
    workers = [Worker(answers=True), Worker(answers=True)]
    pool = RolloutPool(workers, concurrency=1)
    names = [f"r{i}" for i in range(6)]
    assert await asyncio.gather(*[pool.run(spec(name)) for name in names]) == names
    assert [len(worker.asked) for worker in workers] == [3, 3]
    assert [name for pair in zip(workers[0].asked, workers[1].asked, strict=True) for name in pair] == names
