"""Files written into a fresh container from outside, where its engine is this machine's own.

A command inside that unpacks them would cost half of what the container's start costs. Invariant: only an empty
workspace is written, a mount of its own, and no link is followed anywhere, not even one that a process of the image
makes meanwhile; what lies there then is what unpacking would leave: mode 644, no time, the owner of the workspace.
Whoever may not do that, or cannot be sure, is told so and uses a command.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import PurePosixPath

from lego_harness.sandbox import cgroup
from lego_harness.sandbox.base import WORKSPACE
from lego_harness.sandbox.docker_engine import State
from lego_harness.sandbox.workspace import checked_path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def is_filled(state: State, files: Mapping[str, bytes]) -> bool:
    """Write `files`; False where that is not possible from here. Raises OSError, SetupError for bad paths."""
    if os.geteuid() != 0 or not cgroup.is_of(state.pid, state.id):
        return False
    with _workspace(state.pid) as workspace:
        if workspace is None:
            return False
        owner = os.fstat(workspace)
        by_folder = groupby(
            sorted((checked_path(name), name) for name in files), lambda found: found[0].parent
        )
        for folder, found in by_folder:
            with _folder(workspace, folder, owner) as place:
                for path, name in found:
                    _write(place, path.name, files[name], owner)
    return True


@contextmanager
def _workspace(pid: int) -> Generator[int | None]:
    """The folder, in the mounts that the process sees; None for anything but an empty mount."""
    opened: list[int] = []
    try:
        opened.append(os.open(f"/proc/{pid}/root/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        opened.append(os.open(WORKSPACE.lstrip("/"), _FOLDER, dir_fd=opened[0]))
        root, workspace = (os.fstat(one).st_dev for one in opened)
        with os.scandir(opened[1]) as entries:
            is_ours = root != workspace and not any(entries)
    except OSError:
        is_ours = False
    try:
        yield opened[1] if is_ours else None
    finally:
        for one in opened:
            os.close(one)


@contextmanager
def _folder(workspace: int, folder: PurePosixPath, owner: os.stat_result) -> Generator[int]:
    """A folder below, made where it is missing. It is entered one name after the other: whatever the image runs may
    have put a link in place of any of them, which would lead out of the container."""
    place = os.dup(workspace)
    try:
        for name in folder.parts:
            above, place = place, _entered(place, name, owner)
            os.close(above)
        yield place
    finally:
        os.close(place)


def _entered(place: int, name: str, owner: os.stat_result) -> int:
    is_new = True
    try:
        os.mkdir(name, dir_fd=place)
    except FileExistsError:
        is_new = False
    folder = os.open(name, _FOLDER, dir_fd=place)
    if is_new:
        os.fchown(folder, owner.st_uid, owner.st_gid)
        os.fchmod(folder, 0o755)
    return folder


def _write(folder: int, name: str, content: bytes, owner: os.stat_result) -> None:
    file = os.open(name, _NEW_FILE, dir_fd=folder)
    with os.fdopen(file, "wb") as written:
        written.write(content)
        written.flush()
        os.fchown(file, owner.st_uid, owner.st_gid)
        os.fchmod(file, 0o644)
        os.utime(file, (0, 0))
