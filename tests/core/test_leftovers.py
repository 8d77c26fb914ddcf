"""Processes of a dead launch are ended; everybody else's are not touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lego_core.leftovers import MARK, end_leftovers, mark_this_launch


def test_a_process_whose_launch_is_dead_is_ended() -> None:
    with _waiting_process(launch=_dead_pid()) as orphan:
        assert end_leftovers() >= 1
        assert orphan.wait(10) == -signal.SIGKILL


def test_a_process_that_lost_its_mark_is_known_by_the_files_it_holds_open() -> None:
    folder = Path(f"/tmp/lego-launch-{_dead_pid()}-test")
    folder.mkdir()
    with (folder / "log").open("w") as log, _waiting_process(launch=None, keeps=log.fileno()) as orphan:
        assert end_leftovers() >= 1
        assert orphan.wait(10) == -signal.SIGKILL


def test_a_process_of_a_living_launch_and_one_without_mark_are_left_alone() -> None:
    with _waiting_process(launch=os.getpid()) as ours, _waiting_process(launch=None) as unmarked:
        end_leftovers()
        assert (ours.poll(), unmarked.poll()) == (None, None)


def test_the_folder_of_a_dead_launch_is_removed_and_a_living_one_keeps_its_own() -> None:
    dead = Path(f"/tmp/lego-launch-{_dead_pid()}-test")
    dead.mkdir()
    before = os.environ.get(MARK)
    try:
        with mark_this_launch() as folder:
            end_leftovers()
            assert folder.is_dir()
            assert not dead.exists()
        assert not folder.exists()
    finally:
        os.environ.pop(MARK, None) if before is None else os.environ.update({MARK: before})


def test_temporary_files_of_its_children_lie_in_the_folder_of_the_launch() -> None:
    before = {name: os.environ.get(name) for name in (MARK, "TMPDIR")}
    try:
        with mark_this_launch() as folder:
            ask = [sys.executable, "-c", "import tempfile; print(tempfile.gettempdir())"]
            said = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
        assert Path(said) == folder / "tmp"
        assert os.environ.get("TMPDIR") == before["TMPDIR"]
    finally:
        os.environ.pop(MARK, None) if before[MARK] is None else os.environ.update({MARK: str(before[MARK])})


def _dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@contextmanager
def _waiting_process(*, launch: int | None, keeps: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the given mark that runs until its standard input closes."""
    mark = {} if launch is None else {MARK: str(launch)}
    inherited = {key: value for key, value in os.environ.items() if key != MARK}
    program = [sys.executable, "-c", "print('ready', flush=True); input()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    kept = () if keeps is None else (keeps,)
    with subprocess.Popen(program, env=inherited | mark, pass_fds=kept, **pipes) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
