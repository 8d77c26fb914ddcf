"""`lego train` as a parent: what it shows, passes on and leaves behind."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lego_core.store import RunReader, RunStatus, newest_run

pytestmark = pytest.mark.xdist_group("launches")  # see tests/core/test_leftovers.py
ROOT = Path(__file__).parents[2]
SUPERVISE = """
import sys
from rich.console import Console
from lego_control.supervisor import train
core = [sys.executable, "-m", "tests.support.pretend_core"]
console = Console(width=150, force_terminal="--live" in sys.argv or None)
sys.exit(train(sys.argv[1:3], console, core=core))
"""


def supervise(runs: Path, behaviour: str, *flags: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SUPERVISE, str(runs), behaviour, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm"},
    )


def run_to_end(runs: Path, behaviour: str, *flags: str) -> tuple[int, str]:
    with supervise(runs, behaviour, *flags) as process:
        output, _ = process.communicate(timeout=60)
    return process.returncode, output


def until(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return
    pytest.fail(f"the output ended before {words!r}")


def child_of(run: Path) -> int:
    """The process that writes the run."""
    return int(RunReader(run).events()[0].fields["pid"])


def test_a_run_is_followed_line_by_line_to_its_end(tmp_path: Path) -> None:
    code, output = run_to_end(tmp_path, "finish")
    run = newest_run(tmp_path)
    lines = output.splitlines()
    assert code == 0
    assert [line for line in lines if line.startswith("step ")][1].startswith(
        "step 2/3  reward 0.200  solved 2/64  groups with signal 7/8  r 0.99999  |Δlogp| 1.0e-06  512 tokens/s  left"
    )
    assert "held-out at step 0: 25 % of 64 solved" in lines
    assert "held-out at step 3: 75 % of 64 solved" in lines
    assert f"The run finished: {run}" in lines
    assert [line.split("#")[0].strip() for line in lines[-3:]] == [
        f"lego show {run}",
        f"lego show {run} --json",
        f"tail {run}/events.jsonl",
    ]


def test_a_terminal_gets_a_panel_with_the_last_step(tmp_path: Path) -> None:
    code, output = run_to_end(tmp_path, "finish", "--live")
    assert code == 0
    for words in (
        "3 of 3",
        "0.300",
        "▂▂▃",
        "r 0.99999",
        "512 tokens/s",
        "25 % → 75 %",
        "groups with signal 7/8",
    ):
        assert words in output


def test_a_refusal_before_the_run_is_one_line_on_stderr(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SUPERVISE, str(tmp_path), "refuse"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "lego: no sandbox backend; install bubblewrap\n"


def test_a_killed_core_is_told_with_the_way_to_go_on(tmp_path: Path) -> None:
    code, output = run_to_end(tmp_path, "crash")
    run = newest_run(tmp_path)
    assert code == 128 + signal.SIGKILL
    assert f"The run was interrupted: {run}" in output
    assert output.splitlines()[-1] == f"Continue it with: lego train --resume {run}"


def test_a_talkative_core_neither_blocks_nor_is_obeyed(tmp_path: Path) -> None:
    code, output = run_to_end(tmp_path, "flood")
    assert code == 0
    assert output.count("chatter ") == 2_000
    assert "chatter 1999 [red] xxx" in output


@pytest.mark.parametrize(("kind", "shows"), [("xterm", "3 of 3"), ("dumb", "step 3/3")])
def test_on_a_terminal_both_the_core_and_the_run_are_seen(tmp_path: Path, kind: str, shows: str) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", SUPERVISE, str(tmp_path), "flood"]
    with subprocess.Popen(
        command, stdout=theirs, stderr=theirs, cwd=ROOT, env={**os.environ, "TERM": kind}
    ) as process:
        os.close(theirs)
        output = b"".join(pieces(ours)).decode()
    os.close(ours)
    assert process.returncode == 0
    assert output.count("chatter ") == 2_000
    assert shows in output
    assert f"The run finished: {newest_run(tmp_path)}" in output


def pieces(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            yield os.read(terminal, 65536)
        except OSError:  # Linux says EIO once the other side is closed
            return


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_core_which_ends_in_its_own_time(tmp_path: Path, number: signal.Signals) -> None:
    with supervise(tmp_path, "wait") as process:
        until(process, "step 3/3")
        run = newest_run(tmp_path)
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert RunReader(run).status() is RunStatus.INTERRUPTED
    assert [e.fields["reason"] for e in RunReader(run).events() if e.kind == "interrupted"] == ["asked to"]
    assert f"lego train --resume {run}" in output


def test_a_core_does_not_outlive_the_command_that_was_killed(tmp_path: Path) -> None:
    with supervise(tmp_path, "wait") as process:
        until(process, "step 3/3")
        run = newest_run(tmp_path)
        core = os.pidfd_open(child_of(run))
        process.kill()
        process.communicate(timeout=60)
    ended, _, _ = select.select([core], [], [], 60)
    os.close(core)
    assert ended
    assert RunReader(run).status() is RunStatus.INTERRUPTED
