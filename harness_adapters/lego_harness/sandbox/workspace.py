"""Host folders that become a sandbox's workspace: written, read back and removed safely.

Invariants: nothing here follows a link or opens anything but a regular file; reading is bounded; nothing
keeps a call or an open file for each level of a tree, whatever the agent left behind. Callers make sure that
nothing runs in the sandbox meanwhile.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath

from lego_harness.errors import SetupError
from lego_harness.sandbox.base import CACHES, MAX_DEPTH, MAX_EXPORT_BYTES, MAX_EXPORT_FILES, MAX_PATH_BYTES

_MAX_ENTRIES = 10 * MAX_EXPORT_FILES
"""Of a tree, folders and links among them: a reader looks no further."""


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
    for name in _regular_files(root):
        content = _read(root / name, left + 1)
        files[name] = content
        left -= len(content)
        if left < 0 or len(files) > MAX_EXPORT_FILES:
            break
    return files


def is_exported(name: str) -> bool:
    """Whether a relative path may be part of an export."""
    folders = name.split("/")[:-1]
    is_short = len(folders) < MAX_DEPTH and len(os.fsencode(name)) <= MAX_PATH_BYTES
    return is_short and not any(folder in CACHES for folder in folders)


def remove_tree(root: Path) -> None:
    """Remove a folder, also where the agent took our permissions away; raises SetupError where it stays."""
    for command in (["rm", "-rf"], ["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        if not os.path.lexists(root):
            return
        said = subprocess.DEVNULL
        subprocess.run([*command, "--", str(root)], stdin=said, stdout=said, stderr=said, check=False)
    if os.path.lexists(root):
        raise SetupError(f"{root}: cannot be removed; look at it by hand")


def _regular_files(root: Path) -> Iterator[str]:
    """A folder's own files, then its folders', one after the other."""
    folders, left = [""], _MAX_ENTRIES
    while folders and left > 0:
        inner = folders.pop()
        _open_up(root / inner)
        with os.scandir(root / inner) as found:
            entries = sorted(islice(found, left), key=lambda entry: entry.name)
        left -= len(entries)
        near = [(entry, f"{inner}{entry.name}") for entry in entries if is_exported(f"{inner}{entry.name}")]
        yield from (name for entry, name in near if entry.is_file(follow_symlinks=False))
        below = [f"{name}/" for entry, name in near if _is_folder(entry)]
        folders += reversed(below)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.name not in CACHES and entry.is_dir(follow_symlinks=False)


def _open_up(folder: Path) -> None:
    """Let us list a folder that the agent closed; ours to change, as it runs under our user."""
    if not folder.is_symlink() and not os.access(folder, os.R_OK | os.X_OK):
        folder.chmod(0o700)


def _read(path: Path, limit: int) -> bytes:
    if not os.access(path, os.R_OK):
        path.chmod(0o600)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read(limit)
