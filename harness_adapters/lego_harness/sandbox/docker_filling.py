"""Files written into a fresh container from outside, where its engine is this machine's own.

A command inside that unpacks them would cost half of what the container's start costs. Invariant: only an empty
workspace is written, a mount of its own that is reached without following a link, before anything was executed in
the container; what lies there then is what unpacking would leave: mode 644, no time, the owner of the workspace.
Whoever may not do that, or cannot be sure, is told so and uses a command.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath

from lego_harness.sandbox import cgroup
from lego_harness.sandbox.base import WORKSPACE
from lego_harness.sandbox.docker_engine import State
from lego_harness.sandbox.workspace import checked_path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def is_filled(state: State, files: Mapping[str, bytes]) -> bool:
    """Write `files`; False where that is not possible from here. Raises OSError, SetupError for bad paths."""
    if os.geteuid() != 0 or not cgroup.is_of(state.pid, state.id):
        return False
    with _workspace(state.pid) as workspace:
        if workspace is None:
            return False
        folders = {PurePosixPath()}
        for name, content in files.items():
            path = checked_path(name)
            for folder in reversed(path.parents):
                if folder not in folders:
                    _make(workspace, folder)
                    folders.add(folder)
            _write(workspace, path, content)
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


def _make(workspace: int, folder: PurePosixPath) -> None:
    owner = os.fstat(workspace)
    os.mkdir(folder, dir_fd=workspace)
    os.chown(folder, owner.st_uid, owner.st_gid, dir_fd=workspace)
    os.chmod(folder, 0o755, dir_fd=workspace)


def _write(workspace: int, path: PurePosixPath, content: bytes) -> None:
    owner = os.fstat(workspace)
    file = os.open(path, _NEW_FILE, dir_fd=workspace)
    with os.fdopen(file, "wb") as written:
        written.write(content)
        written.flush()
        os.fchown(file, owner.st_uid, owner.st_gid)
        os.fchmod(file, 0o644)
        os.utime(file, (0, 0))
