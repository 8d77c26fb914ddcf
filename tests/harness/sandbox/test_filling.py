"""A container's workspace is filled from outside where that is the same as from inside, and set-ups take turns."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from lego_harness.errors import SetupError
from lego_harness.sandbox import cgroup, docker, docker_filling
from lego_harness.sandbox.base import Limits, SandboxSpec
from lego_harness.sandbox.docker import DockerBackend
from lego_harness.sandbox.docker_engine import State

Spec = Callable[..., SandboxSpec]
FILES = {"a/b/c.py": b"x = 1\n", "a/empty": b"", "large": b"1" * 200_000}
LIST = (
    "find . -mindepth 1 -printf '%p %y %m %U %G ' \\( -type d -printf '\\n' -o -printf '%s %T@\\n' \\) | sort"
)


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.parametrize("root", [False, True], ids=["agent", "root"])
async def test_files_are_as_a_command_inside_would_unpack_them(
    root: bool, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    for uid in (os.geteuid(), 1000):  # who is not root has to use a command
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        async with DockerBackend().open(spec(files=FILES, root=root)) as sandbox:
            listed.append((await sandbox.exec(["sh", "-c", LIST], timeout_s=60)).stdout)
    assert len(listed[0].splitlines()) == 5
    assert listed[0] == listed[1]


def test_a_workspace_that_is_a_link_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "workspace").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(docker_filling, "WORKSPACE", str(tmp_path / "workspace"))
    monkeypatch.setattr(cgroup, "is_of", lambda *_: True)
    here = State(id="0", image="", pid=os.getpid(), is_running=True, is_out_of_memory=False)
    assert not docker_filling.is_filled(here, FILES)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_link_that_a_process_of_the_image_makes_meanwhile_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_outrun(name: str, *, dir_fd: int) -> None:
        os.symlink(tmp_path, name, dir_fd=dir_fd)
        raise FileExistsError(name)

    with TemporaryDirectory(dir="/dev/shm") as workspace:  # a mount of its own
        monkeypatch.setattr(docker_filling, "WORKSPACE", workspace)
        monkeypatch.setattr(cgroup, "is_of", lambda *_: True)
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(os, "mkdir", is_outrun)
        here = State(id="0", image="", pid=os.getpid(), is_running=True, is_out_of_memory=False)
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            docker_filling.is_filled(here, FILES)
    assert not list(tmp_path.iterdir())


@pytest.mark.docker
@pytest.mark.slow
async def test_files_that_have_no_room_are_a_failed_set_up(spec: Spec) -> None:
    with pytest.raises(SetupError, match=r"cannot be filled: .*No space left"):
        async with DockerBackend().open(spec(files={"large": b"1" * 3 * 2**20}, limits=Limits(disk_mb=1))):
            raise AssertionError


@pytest.mark.docker
@pytest.mark.slow
async def test_a_sandbox_does_not_wait_for_the_starts_of_all_that_were_asked_for(
    spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, events = docker.engine.start, list[str]()

    def noted(*given: Any, **how: Any) -> Any:
        events.append("begun")
        return start(*given, **how)

    monkeypatch.setattr(docker.engine, "start", noted)
    monkeypatch.setattr(docker, "_AT_ONCE", 1)
    backend = DockerBackend()

    async def one() -> None:
        async with backend.open(spec()):
            events.append("handed out")

    await asyncio.gather(one(), one(), one())
    assert events == ["begun", "handed out"] * 3
