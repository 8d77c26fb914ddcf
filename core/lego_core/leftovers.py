"""Finds and ends processes that a killed launch left behind.

Every process of a launch inherits `LEGO_LAUNCH=<pid>` in its environment or holds files of the
launch's folder open; a process whose launch is dead is nobody's and is ended. Ray's agents, for one, outlive a `kill -9` of their driver.
Touches no process without the mark, none of another user, and none of a living launch.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MARK = "LEGO_LAUNCH"
_TEMP_PREFIX = "lego-launch-"


@contextmanager
def mark_this_launch() -> Iterator[Path]:
    """Mark this process and its future children; a temp folder for them, gone with the context.

    Whatever a child puts where temporary files go (sandboxes, sockets of the proxy, of Ray and of vLLM) lies in it.
    """
    os.environ[MARK] = str(os.getpid())
    outside = os.environ.get("TMPDIR")
    # Ray's sockets live in it: a path of more than ~100 bytes would not fit a unix address.
    folder = Path(tempfile.mkdtemp(prefix=f"{_TEMP_PREFIX}{os.getpid()}-", dir="/tmp"))
    (folder / "tmp").mkdir()
    os.environ["TMPDIR"] = str(folder / "tmp")
    try:
        yield folder
    finally:
        if outside is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = outside
        shutil.rmtree(folder, ignore_errors=True)


def end_leftovers() -> int:
    """Kill the processes and remove the temp folders of dead launches; how many processes."""
    ended = 0
    for pid, launch in _marked_processes():
        if pid != os.getpid() and not _is_alive(launch):
            ended += _kill(pid)
    for folder in Path("/tmp").glob(f"{_TEMP_PREFIX}*"):
        launch = folder.name.removeprefix(_TEMP_PREFIX).partition("-")[0]
        if launch.isdigit() and not _is_alive(int(launch)):
            shutil.rmtree(folder, ignore_errors=True)
    return ended


def _marked_processes() -> Iterator[tuple[int, int]]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            launch = _launch_in_environment(process) or _launch_by_open_files(process)
        except OSError:  # it ended meanwhile, or belongs to somebody else
            continue
        if launch is not None:
            yield int(process.name), launch


def _launch_in_environment(process: Path) -> int | None:
    for entry in (process / "environ").read_bytes().split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == MARK.encode() and value.isdigit():
            return int(value)
    return None


def _launch_by_open_files(process: Path) -> int | None:
    """Ray's agents write their title over their environment, but they keep logs open in the launch's
    folder."""
    for link in (process / "fd").iterdir():
        _, found, rest = str(link.readlink()).partition(f"/tmp/{_TEMP_PREFIX}")
        launch = rest.partition("-")[0]
        if found and launch.isdigit():
            return int(launch)
    return None


def _is_alive(pid: int) -> bool:
    """True when `pid` runs; a zombie counts as dead, since it may wait long to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:  # it ended meanwhile
        return False
    return True
