"""Rollouts whose engine, containers, harness or worker are killed at random points.

Every rollout solves its task: whatever is not a reward of 1 must be a failure with a name, and nothing of it
may be left. `make soak` runs a hundred; the suite a few, one kill of each kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from lego_harness.adapters.install import MINI_SWE, install
from lego_harness.types import StopReason, Trajectory
from tests.support.own_engine import OwnEngine
from tests.support.processes import command, descendants
from tests.support.real_rollout import Worker, open_worker, solve
from tests.support.sandboxes import guards_of

pytestmark = [pytest.mark.slow, pytest.mark.docker]
KINDS = ("dockerd", "containerd", "container", "harness")


@pytest.fixture
async def worker(tmp_path: Path) -> AsyncIterator[Worker]:
    install(MINI_SWE)
    async with open_worker(tmp_path, "mini-swe-agent", "docker") as worker:
        yield worker


@pytest.mark.timeout(600)
async def test_a_kill_of_each_kind_costs_rollouts_and_never_a_reward(
    engine: OwnEngine, worker: Worker
) -> None:
    ended = await _rollouts(engine, worker, num_rollouts=8, kinds=KINDS, seed=1)
    _require_sound(ended, engine)


@pytest.mark.soak
async def test_a_hundred_rollouts_under_random_kills(engine: OwnEngine, worker: Worker) -> None:
    kinds = random.Random(4).choices(KINDS, weights=(1, 1, 4, 2), k=30)
    ended = await _rollouts(engine, worker, num_rollouts=110, kinds=kinds, seed=4)
    _require_sound(ended, engine)
    assert sum(one.stop_reason is StopReason.COMPLETED for one in ended) >= 20


@pytest.mark.timeout(600)
@pytest.mark.parametrize("killed", ["dockerd", "containerd"])
async def test_a_rollout_waits_for_an_engine_that_is_away(
    engine: OwnEngine, worker: Worker, killed: str
) -> None:
    replies = [reply for reply in solve("mini-swe-agent", worker.synth) if isinstance(reply, dict)]
    worker.engine([worker.by_turn(*replies)] * (2 * len(replies)))
    ended = [await worker.runner.run(worker.spec("s1.g0.r0", max_seconds=300.0))]
    for pid in engine.pids(killed):
        _kill_process(pid)
    ended.append(await worker.runner.run(worker.spec("s1.g0.r1", max_seconds=300.0)))
    assert [one.grade and one.grade.reward for one in ended] == [1.0, 1.0], [one.error for one in ended]


@pytest.mark.parametrize("and_its_guard", [False, True], ids=["the worker", "the worker and its guard"])
def test_a_killed_worker_leaves_nothing_behind_the_next_start(
    engine: OwnEngine, tmp_path: Path, and_its_guard: bool
) -> None:
    install(MINI_SWE)
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.support.real_rollout", str(tmp_path), "mini-swe-agent", "docker"],
        stdout=subprocess.PIPE,
        text=True,
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == "asked\n"
        assert len(engine.containers()) == 1
        guards = guards_of(program.pid)
        assert len(guards) == 1
        for guard in guards if and_its_guard else []:
            _kill_process(guard)
        program.kill()
    if and_its_guard:
        from lego_harness.sandbox.docker import DockerBackend

        assert asyncio.run(DockerBackend().reap()) == 1
    _until_clean(engine)


async def _rollouts(
    engine: OwnEngine, worker: Worker, *, num_rollouts: int, kinds: Sequence[str], seed: int
) -> list[Trajectory]:
    """Three at a time, until all have ended and all kills were made."""
    replies = [reply for reply in solve("mini-swe-agent", worker.synth) if isinstance(reply, dict)]
    replies += replies[-1:] * 7  # where the engine fails, so do commands, and the rollout goes on
    worker.engine([worker.by_turn(*replies)] * (num_rollouts * len(replies)))
    ended: list[Trajectory] = []
    waiting = iter(range(num_rollouts))

    async def run_some() -> None:
        for number in waiting:
            spec = worker.spec(f"s1.g0.r{number}", max_seconds=300.0)  # an engine may be away for long
            trajectory = await worker.runner.run(spec)
            ended.append(trajectory)

    killing = asyncio.create_task(_kill(engine, kinds, random.Random(seed)))
    await asyncio.gather(*(run_some() for _ in range(3)))
    killing.cancel()
    await asyncio.gather(killing, return_exceptions=True)
    assert killing.cancelled() or killing.exception() is None
    return ended


async def _kill(engine: OwnEngine, kinds: Sequence[str], chance: random.Random) -> None:
    for kind in kinds:
        await asyncio.sleep(chance.uniform(0.5, 4.0))
        if kind == "container":
            while not await asyncio.to_thread(engine.kill_container):  # noqa: ASYNC110 as above
                await asyncio.sleep(0.1)
        elif kind == "harness":
            for pid in [p for p in descendants(os.getpid()) if command(p).startswith("docker ")][:1]:
                _kill_process(pid)
        else:
            for pid in engine.pids(kind):
                _kill_process(pid)
        await asyncio.to_thread(engine.wait_until_whole)


def _kill_process(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended since it was listed
        os.kill(pid, signal.SIGKILL)


def _require_sound(ended: Sequence[Trajectory], engine: OwnEngine) -> None:
    for one in ended:
        if one.grade is None:
            assert one.stop_reason.value.startswith("failed_"), one.stop_reason
            assert one.error
        else:
            assert (one.grade.reward, one.error) == (1.0, ""), one.grade.detail
    _until_clean(engine)


def _until_clean(engine: OwnEngine) -> None:
    """Nothing that is ours is left: containers, networks, volumes, and the shims that held them."""
    engine.wait_until_whole()
    deadline = 1200
    while (engine.containers() or engine.pids("containerd-shim-runc-v2")) and (deadline := deadline - 1):
        signal.sigtimedwait([], 0.1)
    assert engine.containers() == []
    assert engine.docker("network", "ls", "--quiet", "--filter", "label=lego.run") == ""
    assert engine.docker("volume", "ls", "--quiet") == ""
    assert engine.pids("containerd-shim-runc-v2") == []
