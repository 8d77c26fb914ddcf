"""Processes of a dead launch are ended; everybody else's are not touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lego_core.leftovers import MARK, end_leftovers, mark_this_launch
from lego_harness.sandbox import ownership
from tests.support.processes import signature_of_the_dead

# The end of any launch puts away what dead ones left on the whole machine, and so what another test has planted.
pytestmark = pytest.mark.xdist_group("launches")
NOT_SURELY_DEAD = {
    "living": ownership.me(),
    "out of sight": "/".join([ownership.me().split("/")[0], "pid:[1]", "4194303", "1"]),
    "no signature": "4194303",
}


def test_a_process_whose_launch_is_dead_is_ended() -> None:
    with _waiting_process(mark=signature_of_the_dead()) as orphan:
        end_leftovers()
        assert orphan.wait(10) == -signal.SIGKILL


def test_a_process_that_lost_its_mark_is_known_by_the_files_it_writes() -> None:
    with (
        _folder(signature_of_the_dead()) as folder,
        _waiting_process(opens=folder / "log", mode="w") as orphan,
    ):
        end_leftovers()
        assert orphan.wait(10) == -signal.SIGKILL


def test_a_person_who_reads_what_a_dead_launch_wrote_is_left_alone() -> None:
    with (
        _folder(signature_of_the_dead()) as folder,
        _waiting_process(opens=folder / "log", mode="r") as reader,
    ):
        end_leftovers()
        assert reader.poll() is None


@pytest.mark.parametrize("launch", NOT_SURELY_DEAD)
def test_whoever_is_not_surely_left_behind_is_left_alone(launch: str) -> None:
    signature = NOT_SURELY_DEAD[launch]
    with (
        _folder(signature) as folder,
        _waiting_process(mark=signature) as marked,
        _waiting_process(opens=folder / "log", mode="w") as writing,
        _waiting_process() as unmarked,
    ):
        end_leftovers()
        assert [process.poll() for process in (marked, writing, unmarked)] == [None] * 3
        assert folder.is_dir()


def test_another_users_processes_and_folders_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root could end them."""
    dead = signature_of_the_dead()
    with _folder(dead) as folder, _waiting_process(mark=dead) as theirs:
        monkeypatch.setattr(os, "getuid", lambda: 54321)
        end_leftovers()
        assert theirs.poll() is None
        assert folder.is_dir()


def test_the_folder_of_a_dead_launch_is_removed_and_a_living_one_keeps_its_own() -> None:
    before = os.environ.get(MARK)
    with _folder(signature_of_the_dead()) as dead:
        with mark_this_launch() as folder:
            end_leftovers()
            assert folder.is_dir()
            assert not dead.exists()
        assert not folder.exists()
    assert os.environ.get(MARK) == before


def test_a_folder_that_nobody_has_signed_yet_is_left_alone() -> None:
    with _folder("") as folder:
        (folder / "owner").unlink()
        end_leftovers()
        assert folder.is_dir()


@pytest.mark.parametrize("owner", ["pipe", "link", "no text"])
def test_what_an_agent_puts_in_place_of_a_signature_neither_holds_nor_ends_a_launch(owner: str) -> None:
    with _folder("") as folder, _waiting_process(opens=folder / "log", mode="w") as agent:
        (folder / "owner").unlink()
        if owner == "pipe":
            os.mkfifo(folder / "owner")
        elif owner == "link":
            (folder / "elsewhere").write_text(signature_of_the_dead())
            (folder / "owner").symlink_to(folder / "elsewhere")
        else:
            (folder / "owner").write_bytes(b"\xff/\xff/\xff")
        end_leftovers()
        assert agent.poll() is None
        assert folder.is_dir()


@contextmanager
def _folder(signature: str) -> Iterator[Path]:
    """The folder of a launch, with a log."""
    with TemporaryDirectory(prefix="lego-launch-", dir="/tmp", ignore_cleanup_errors=True) as name:
        (Path(name) / "owner").write_text(signature)
        (Path(name) / "log").touch()
        yield Path(name)


@contextmanager
def _waiting_process(
    *, mark: str | None = None, opens: Path = Path(os.devnull), mode: str = "r"
) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the given mark and a file open that runs until its standard input closes."""
    marks = {} if mark is None else {MARK: mark}
    inherited = {key: value for key, value in os.environ.items() if key != MARK}
    text = "import sys; file = open(*sys.argv[1:]); print('ready', flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    program = [sys.executable, "-c", text, str(opens), mode]
    with subprocess.Popen(program, env=inherited | marks, **pipes) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
