"""Host folders that become a sandbox's workspace: written, read back and removed safely.

Invariant: nothing here follows a link or opens anything but a regular file, and reading is bounded,
whatever the agent left behind. Callers make sure that nothing runs in the sandbox meanwhile.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from lego_harness.errors import SetupError
from lego_harness.sandbox.base import MAX_EXPORT_BYTES, MAX_EXPORT_FILES


def checked_path(name: str) -> PurePosixPath:
    """A relative path that stays inside its root; raises SetupError."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise SetupError(f"workspace file {name!r}: expected a relative path without `..`")
    return path


def write_files(root: Path, files: Mapping[str, bytes], *, owner: int | None = None) -> None:
    """Write into an empty folder that we own; `owner` gets folder and content (needs root)."""
    for name, content in files.items():
        path = root / checked_path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if owner is not None:
        for folder, _, names in os.walk(root):
            os.chown(folder, owner, owner)
            for name in names:
                os.chown(Path(folder, name), owner, owner, follow_symlinks=False)


def read_files(root: Path) -> dict[str, bytes]:
    """Regular files by relative path, in order; stops just past the export bounds."""
    files: dict[str, bytes] = {}
    left = MAX_EXPORT_BYTES
    for path in _regular_files(root):
        content = _read(path, left + 1)
        files[path.relative_to(root).as_posix()] = content
        left -= len(content)
        if left < 0 or len(files) > MAX_EXPORT_FILES:
            break
    return files


def remove_tree(root: Path) -> None:
    """Remove a folder, also where the agent took our permissions away."""

    def unlock(function: Callable[..., Any], name: str, _: object) -> None:
        Path(name).parent.chmod(0o700)
        if not Path(name).is_symlink() and Path(name).is_dir():
            Path(name).chmod(0o700)
            shutil.rmtree(name, ignore_errors=True)
        else:
            function(name)

    if root.exists():
        shutil.rmtree(root, onerror=unlock)


def _regular_files(root: Path) -> Iterator[Path]:
    _open_up(root)
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in folders:
            _open_up(Path(folder, name))
        for name in sorted(names):
            path = Path(folder, name)
            if stat.S_ISREG(path.lstat().st_mode):
                yield path


def _open_up(folder: Path) -> None:
    """Let us list a folder that the agent closed; ours to change, as it runs under our user."""
    if not folder.is_symlink() and not os.access(folder, os.R_OK | os.X_OK):
        folder.chmod(0o700)


def _read(path: Path, limit: int) -> bytes:
    if not os.access(path, os.R_OK):
        path.chmod(0o600)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read(limit)
