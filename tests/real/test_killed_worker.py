"""A rollout worker that is killed takes everything it started with it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lego_harness.adapters.install import CLAUDE_CODE, MINI_SWE, install
from lego_harness.sandbox.choose import choose_backend
from tests.support.processes import Watch, descendants
from tests.support.real_rollout import LABEL

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("harness", "backend"),
    [
        ("mini-swe-agent", "bubblewrap"),
        ("claude-code", "bubblewrap"),
        pytest.param("mini-swe-agent", "docker", marks=pytest.mark.docker),
        pytest.param("claude-code", "docker", marks=pytest.mark.docker),
    ],
)
def test_killing_the_worker_leaves_no_process_no_harness_folder_and_a_sandbox_that_is_reaped(
    harness: str, backend: str, tmp_path: Path
) -> None:
    install({MINI_SWE.name: MINI_SWE, CLAUDE_CODE.name: CLAUDE_CODE}[harness])
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
        watch = Watch(descendants(program.pid))
        assert watch.commands
        program.kill()
    assert watch.survivors(within_s=20) == []
    assert list(tmp_path.glob("lego-harness-*")) == []
    assert asyncio.run(_reap(backend, tmp_path)) == 1
    assert asyncio.run(_reap(backend, tmp_path)) == 0


async def _reap(backend: str, temp: Path) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(temp))
        return await choose_backend(backend).reap(LABEL)
