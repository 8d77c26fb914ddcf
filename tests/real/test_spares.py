"""A rollout worker on Docker has its next sandbox ready, and takes what nobody used with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lego_core.rollouts.worker import RolloutWorker, WorkerConfig
from lego_harness.adapters.install import MINI_SWE, install
from lego_harness.adapters.options import HarnessOptions
from lego_harness.proxy.upstream import Engine
from lego_harness.sandbox.choose import choose_backend
from lego_harness.sandbox.docker_engine import state
from lego_harness.types import GenerateRequest, Generation, StopReason
from tests.support.real_rollout import Worker, finish, run_command
from tests.support.sandboxes import unique_label

pytestmark = [pytest.mark.slow, pytest.mark.docker]
HARNESS = "mini-swe-agent"


class _Watching(Engine):
    """Has one command run, then the harness end. Remembers which containers stand while it is asked."""

    def __init__(self, script: Worker, label: str) -> None:
        self._turn = script.by_turn(run_command(HARNESS, "true"), finish(HARNESS))
        self._label = label
        self.standing: set[str] = set()

    async def generate(self, request: GenerateRequest) -> Generation:
        self.standing = await _standing(self._label)
        return self._turn(request)


async def _standing(label: str) -> set[str]:
    return {one.name for one in await choose_backend("docker").standing(label)}


async def _started(label: str, count: int) -> set[str]:
    """The label's containers, once there are `count` and all run."""
    async with asyncio.timeout(100):
        while True:
            names = await _standing(label)
            running = [name for name in names if (said := state(name)) and said.is_running]
            if len(running) == len(names) == count:
                return names
            await asyncio.sleep(0.05)


async def test_the_next_rollout_finds_its_container_started_and_closing_leaves_none(tmp_path: Path) -> None:
    install(MINI_SWE)
    label = unique_label()
    script = Worker(tmp_path, HARNESS, "docker")
    script.engine([])
    engine = _Watching(script, label)
    worker = RolloutWorker(
        engine,
        WorkerConfig(
            harness=HARNESS,
            options=HarnessOptions(),
            sandbox="docker",
            model_dir=tmp_path / "model",
            max_model_len=32_768,
            template_options={},
            label=label,
        ),
    )
    await worker.start()
    try:
        first = await worker.run(script.spec("s1.g0.r0"))
        assert first.stop_reason is StopReason.COMPLETED, first.error
        spares = await _started(label, 2)
        second = await worker.run(script.spec("s1.g0.r1"))
        assert second.stop_reason is StopReason.COMPLETED, second.error
        assert engine.standing & spares == spares
        assert len(await _started(label, 2) & spares) == 1
    finally:
        await worker.close()
    assert await _standing(label) == set()
