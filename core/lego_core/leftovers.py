"""Finds and ends processes that a killed launch left behind.

Every process of a launch inherits `LEGO_LAUNCH=<signature>` in its environment, or has files open for writing in the
launch's folder, whose `owner` file holds the same signature. A process whose launch is dead has no owner and is ended:
Ray's agents, for one, outlive a `kill -9` of their driver. Invariant: a process without such a signature, of another
user, or whose launch cannot be seen from here (in a container, say) is not touched; nor is one that only reads what a
launch wrote.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lego_harness.sandbox import ownership

MARK = "LEGO_LAUNCH"
_TEMP_PREFIX = "lego-launch-"
_SIGNATURE_BYTES = 200


@contextmanager
def mark_this_launch() -> Iterator[Path]:
    """Mark the future children of this process; a temp folder for them, gone with the context."""
    before = os.environ.get(MARK)
    os.environ[MARK] = ownership.me()
    # Ray's sockets live in it: a path of more than ~100 bytes would not fit a unix address.
    folder = Path(tempfile.mkdtemp(prefix=_TEMP_PREFIX, dir="/tmp"))
    (folder / "owner").write_text(ownership.me())
    try:
        yield folder
    finally:
        os.environ.pop(MARK) if before is None else os.environ.update({MARK: before})
        shutil.rmtree(folder, ignore_errors=True)


def end_leftovers() -> None:
    """Kill the processes and remove the temp folders of dead launches."""
    for pid in _left_behind():
        with suppress(OSError):  # it ended meanwhile
            os.kill(pid, signal.SIGKILL)
    for folder in Path("/tmp").glob(f"{_TEMP_PREFIX}*"):
        with suppress(OSError):  # another launch removed it meanwhile
            if folder.lstat().st_uid == os.getuid() and _is_signed_by_the_dead(folder):
                shutil.rmtree(folder, ignore_errors=True)


def count_leftovers() -> int:
    """Processes of dead launches that still run; ends none."""
    return sum(1 for _ in _left_behind())


def _left_behind() -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            if process.name != str(os.getpid()) and _is_ours(process) and _is_of_a_dead_launch(process):
                yield int(process.name)


def _is_ours(process: Path) -> bool:
    """Of this user: root could reach everybody's."""
    user = (process / "status").read_text(errors="replace").partition("\nUid:")[2].split()[0]
    return int(user) == os.getuid()


def _is_of_a_dead_launch(process: Path) -> bool:
    for entry in (process / "environ").read_bytes().split(b"\0"):
        name, _, signature = entry.partition(b"=")
        if name == MARK.encode():
            return _is_dead(signature.decode(errors="replace"))
    return any(_is_signed_by_the_dead(folder) for folder in _launches_written_to(process))


def _launches_written_to(process: Path) -> Iterator[Path]:
    """Ray's agents write their title over their environment, but they keep logs open in the launch's folder. Each
    folder is as the process itself sees it, because it may have a /tmp of its own."""
    for link in (process / "fd").iterdir():
        path = link.readlink()
        if path.is_relative_to("/tmp") and path.parts[2:] and path.parts[2].startswith(_TEMP_PREFIX):
            flags = (process / "fdinfo" / link.name).read_text().partition("flags:")[2].split()[0]
            if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                yield process / "root" / "tmp" / path.parts[2]


def _is_signed_by_the_dead(folder: Path) -> bool:
    """False for one that is gone or not signed yet. An agent may have made it, in a /tmp of its own: its content is
    only read, and a pipe or a link is not a signature."""
    try:
        file = os.open(folder / "owner", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return _is_dead(os.read(file, _SIGNATURE_BYTES).decode(errors="replace"))
    except OSError:
        return False
    finally:
        os.close(file)


def _is_dead(signature: str) -> bool:
    """Whether it names a launch that has certainly ended; anything that is not a signature is somebody else's."""
    return signature.count("/") == 3 and ownership.is_gone(signature)
