"""A rollout worker that is killed takes everything it started with it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lego_harness.adapters.install import CLAUDE_CODE, MINI_SWE, OPENHANDS, install
from lego_harness.sandbox.choose import choose_backend
from tests.support.processes import Watch, command, descendants
from tests.support.real_rollout import label_of
from tests.support.sandboxes import guards_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("harness", "backend"),
    [
        ("mini-swe-agent", "bubblewrap"),
        ("claude-code", "bubblewrap"),
        ("openhands", "bubblewrap"),
        pytest.param("mini-swe-agent", "docker", marks=pytest.mark.docker),
        pytest.param("claude-code", "docker", marks=pytest.mark.docker),
        pytest.param("openhands", "docker", marks=pytest.mark.docker),
    ],
)
def test_killing_the_worker_leaves_no_process_no_harness_folder_and_no_sandbox_behind_a_reaper(
    harness: str, backend: str, tmp_path: Path
) -> None:
    install({known.name: known for known in (MINI_SWE, CLAUDE_CODE, OPENHANDS)}[harness])
    folder = tmp_path / "worker"
    folder.mkdir()
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.support.real_rollout", str(folder), harness, backend],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == "asked\n"
        pids = descendants(program.pid)
        clients = Watch([pid for pid in pids if command(pid).startswith("docker ")])
        others = Watch([pid for pid in pids if pid not in clients.commands] + guards_of(program.pid))
        assert pids
        program.kill()
    assert others.survivors(within_s=120) == []
    assert list(tmp_path.glob("lego-harness-*")) == []
    # Docker's guard, one of the others, has taken the container already.
    assert asyncio.run(_reap(backend, program.pid, tmp_path)) == (backend == "bubblewrap")
    assert asyncio.run(_reap(backend, program.pid, tmp_path)) == 0
    assert clients.survivors(within_s=120) == []  # they end with the container, which ends by being reaped


async def _reap(backend: str, pid: int, temp: Path) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(temp))
        return await choose_backend(backend).reap(label_of(pid))
