"""Whatever ends `lego redteam`, no sandbox of its is left for long."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
COMMAND = [sys.executable, "-m", "lego_control", "redteam", "--sandbox", "bubblewrap", "--cheat", "nothing"]


def _start(tmp_path: Path) -> subprocess.Popen[bytes]:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.Popen(COMMAND, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _sandboxes(tmp_path: Path) -> list[Path]:
    """Those that are made as far as the agent's files; one without an owner yet counts as young, not as left."""
    return list(tmp_path.glob("lego-rl-*/redteam-*/*/workspace/*"))


def _ended_by(number: int, tmp_path: Path) -> int:
    """The exit code of a run that gets a signal while an agent's sandbox stands."""
    process = _start(tmp_path)
    _hold_with_a_sandbox(process, tmp_path)
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    _, said = process.communicate(timeout=200)
    assert b"Traceback" not in said, said
    return process.returncode


def _hold_with_a_sandbox(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """Stop the program while a sandbox stands: a running one might be about to close it."""
    deadline = time.monotonic() + 200
    while True:
        assert time.monotonic() < deadline, "no sandbox was opened"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.005)
            raise AssertionError(f"it ended by itself: {process.communicate()}")
        if _sandboxes(tmp_path):
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if _sandboxes(tmp_path):
                return
            process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_told_to_end_it_leaves_nothing(tmp_path: Path, number: int) -> None:
    assert _ended_by(number, tmp_path) in (130, 143)
    assert _sandboxes(tmp_path) == []
    assert list(tmp_path.glob("lego-redteam-*")) == []


def test_what_a_killed_one_left_goes_when_the_next_begins(tmp_path: Path) -> None:
    assert _ended_by(signal.SIGKILL, tmp_path) == -signal.SIGKILL
    assert _sandboxes(tmp_path)
    with _start(tmp_path) as following:
        _, said = following.communicate(timeout=250)
    assert following.returncode == 0, said
    assert _sandboxes(tmp_path) == []
