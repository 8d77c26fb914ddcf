"""Containers belong to who made them: they go with him, and nothing of anybody else's is touched."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from lego_control.cli import main
from lego_core import leftovers
from lego_harness.errors import SandboxEnded, SetupError
from lego_harness.sandbox import docker_engine, ownership
from lego_harness.sandbox.base import Limits, Phase, SandboxSpec
from lego_harness.sandbox.docker import DockerBackend
from tests.harness.sandbox.test_leaving import OPENS_AND_WAITS
from tests.support.processes import descendants
from tests.support.sandboxes import Maker, Sleeper

pytestmark = [pytest.mark.docker, pytest.mark.slow]
Spec = Callable[..., SandboxSpec]


@pytest.fixture
def docker() -> DockerBackend:
    return DockerBackend()


@pytest.fixture
def foreign(label: str) -> Iterator[str]:
    """Somebody else's container: it bears none of our labels."""
    name = f"foreign-{label}"
    engine(
        ["run", "--detach", "--network=none", f"--name={name}", docker_engine.default_image(), "sleep", "600"]
    )
    yield name
    engine(["rm", "--force", name])


async def test_containers_of_a_killed_process_go_without_anybody_asking(
    docker: DockerBackend, label: str
) -> None:
    """Ray ends the children of a worker it ends, a launch whatever a dead one left."""
    forever = Sleeper()
    boot, namespace, pid, _ = ownership.me().split("/")
    victim = await asyncio.create_subprocess_exec(
        *[sys.executable, "-c", OPENS_AND_WAITS, "docker", label, forever.command],
        env={**os.environ, leftovers.MARK: f"{boot}/{namespace}/{pid}/1"},
    )
    await forever.started()
    for one in [*descendants(victim.pid), victim.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    await victim.wait()
    leftovers.end_leftovers()
    async with asyncio.timeout(60):
        while await docker.standing(label):  # noqa: ASYNC110 the engine has no event for us
            await asyncio.sleep(0.05)
    assert forever.survivors() == []


OPENS_AND_CLOSES = """
import asyncio, sys
from lego_harness.sandbox.base import Phase, SandboxSpec
from lego_harness.sandbox.docker import DockerBackend

async def main():
    async with DockerBackend(warm=2).open(SandboxSpec(phase=Phase.AGENT, files={}, label=sys.argv[1])):
        pass
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_containers_that_a_killed_process_had_only_prepared_go_too(
    docker: DockerBackend, label: str
) -> None:
    victim = await asyncio.create_subprocess_exec(sys.executable, "-c", OPENS_AND_CLOSES, label)
    await _names(docker, label, count=2)
    victim.kill()
    await victim.wait()
    async with asyncio.timeout(60):
        while await docker.standing(label):  # noqa: ASYNC110 the engine has no event for us
            await asyncio.sleep(0.05)


async def test_reaping_every_run_touches_neither_the_living_nor_the_foreign(
    docker: DockerBackend, spec: Spec, label: str, foreign: str
) -> None:
    async with docker.open(spec()) as living:
        with Maker() as maker:
            abandoned = made_by(maker, "other-run")
        await docker.reap()
        assert docker_engine.state(abandoned) is None
        assert (await living.exec(["cat", "a.txt"], timeout_s=20)).stdout == "hello\n"
        state = docker_engine.state(foreign)
        assert state is not None
        assert state.is_running


async def test_people_see_and_remove_what_nobody_owns(
    docker: DockerBackend, spec: Spec, label: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with docker.open(spec()):
        with Maker() as maker:
            made_by(maker, label)
        command = ["sandbox", "ls", "--sandbox", "docker", "--run", label, "--json"]
        assert await asyncio.to_thread(main, command) == 0
        listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert sorted(one["is_orphan"] for one in listed) == [False, True]
        assert await asyncio.to_thread(main, ["sandbox", "reap", "--sandbox", "docker", "--run", label]) == 0
        assert capsys.readouterr().out == "docker: removed 1\n"
        assert [one.is_orphan for one in await docker.standing(label)] == [False]


def made_by(maker: Maker, run: str) -> str:
    """A container of `maker`'s."""
    labels = [f"--label=lego.run={run}", f"--label=lego.owner={maker.signature}"]
    return engine(
        ["run", "--detach", "--network=none", *labels, docker_engine.default_image(), "sleep", "600"]
    ).strip()


async def test_a_container_that_somebody_kills_is_a_failure_and_not_the_agents_doing(
    docker: DockerBackend, spec: Spec, label: str
) -> None:
    async with docker.open(spec()) as sandbox:
        (one,) = await docker.standing(label)
        engine(["kill", one.name])
        with pytest.raises(SetupError, match="is gone") as caught:
            await sandbox.exec(["true"], timeout_s=20)
        assert not isinstance(caught.value, SandboxEnded)
        with pytest.raises(SetupError, match="is gone"):
            await sandbox.export()


async def test_want_of_memory_is_told_from_the_kernels_count_whatever_the_exit_code(
    docker: DockerBackend, spec: Spec
) -> None:
    eats = "python3 -c 'x = bytearray(400 * 2**20)'"
    async with docker.open(spec(limits=Limits(memory_mb=100, disk_mb=16))) as sandbox:
        hidden = await sandbox.exec(["sh", "-c", f"{eats}; exit 0"], timeout_s=60)
        assert (hidden.exit_code, hidden.ran_out_of_memory) == (0, True)
        killed = await sandbox.exec(["sh", "-c", "kill -9 $$"], timeout_s=60)
        assert (killed.exit_code, killed.ran_out_of_memory) == (137, False)


async def test_a_root_inside_has_no_capability_and_cannot_end_its_container(
    docker: DockerBackend, spec: Spec
) -> None:
    script = """
    id -u; grep -E '^(CapPrm|CapEff|CapBnd)' /proc/self/status | cut -f2 | sort -u
    for pid in /proc/[0-9]*; do [ ${pid#/proc/} = $$ ] || kill -9 ${pid#/proc/} 2>/dev/null; done
    kill -9 -1; true"""
    async with docker.open(spec(root=True, phase=Phase.AGENT)) as sandbox:
        result = await sandbox.exec(["sh", "-c", script], timeout_s=20)
        assert result.stdout == "0\n0000000000000000\n"
        assert (await sandbox.exec(["sh", "-c", "cat a.txt; echo 2 > b"], timeout_s=20)).stdout == "hello\n"
        assert await sandbox.export() == {"a.txt": b"hello\n", "b": b"2\n"}


async def test_gvisor_is_refused_clearly_by_an_engine_without_it() -> None:
    backend = DockerBackend(runtime="runsc")
    if "runsc" in engine(["info", "--format", "{{json .Runtimes}}"]):
        await backend.check()
        return
    with pytest.raises(SetupError, match=r"has no runtime runsc.*install gVisor"):
        await backend.check()


def engine(words: list[str]) -> str:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout


async def test_a_prepared_container_is_taken_once_filled_when_taken_and_removed_when_nobody_does(
    spec: Spec, label: str
) -> None:
    backend = DockerBackend(warm=1)
    async with backend.open(spec(phase=Phase.AGENT)):
        first = await _names(backend, label, count=2)
    (spare,) = await _names(backend, label, count=1)
    assert spare in first
    async with backend.open(spec(phase=Phase.AGENT, files={"b": b"2\n"})) as sandbox:
        assert spare in await _names(backend, label, count=2)
        assert await sandbox.export() == {"b": b"2\n"}
    async with backend.open(spec(phase=Phase.AGENT, limits=Limits(pids=99))):
        assert spare not in await _names(backend, label, count=2)
    (dead,) = await _names(backend, label, count=1)
    engine(["kill", dead])
    async with backend.open(spec(phase=Phase.AGENT, limits=Limits(pids=99))) as sandbox:
        assert (await sandbox.exec(["cat", "a.txt"], timeout_s=20)).stdout == "hello\n"
    await backend.close()
    assert await backend.standing(label) == []


async def _names(backend: DockerBackend, label: str, *, count: int) -> set[str]:
    """The run's containers, once there are that many and all have started."""
    async with asyncio.timeout(100):
        while True:
            names = {one.name for one in await backend.standing(label)}
            states = [docker_engine.state(name) for name in names]
            if len(names) == count and all(state and state.is_running for state in states):
                return names
            await asyncio.sleep(0.05)
