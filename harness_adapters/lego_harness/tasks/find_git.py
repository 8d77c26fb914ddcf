"""Runs inside a sandbox: PATTERN ROOT… ─▶ paths of files below the roots that match, one a line.

Follows no link. Left out: the kernel's own folders, the workspace, and mounts that nobody can write: they are the
harness's or the grader's, unless they are roots. Invariant: it ends with 0 only when it read all that its user can
read or open up; what is closed to that user is closed to the agent. Needs the standard library only.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_OTHERS = {"/proc", "/sys", "/dev", "/workspace"}


def main(pattern: str, roots: list[str]) -> None:
    """Print what is found; exits with a reason where a folder cannot be read."""
    stored = re.compile(pattern)
    for root in roots:
        for path in _files_below(str(Path(root).expanduser())):
            if stored.search(path):
                sys.stdout.buffer.write(os.fsencode(path).replace(b"\n", b"?") + b"\n")


def _files_below(root: str) -> Iterator[str]:
    for folder, folders, names in os.walk(root, onerror=_require_closed):
        here = folder.rstrip("/")
        folders[:] = [name for name in folders if _is_searched(folder, f"{here}/{name}")]
        yield from (f"{here}/{name}" for name in names)


def _is_searched(above: str, folder: str) -> bool:
    if folder in _OTHERS:
        return False
    try:
        is_mount = os.lstat(folder).st_dev != os.lstat(above).st_dev
        return not is_mount or not os.statvfs(folder).f_flag & os.ST_RDONLY
    except OSError:
        return True


def _require_closed(error: OSError) -> None:
    if isinstance(error, FileNotFoundError):
        return
    if not isinstance(error, PermissionError) or _owner(str(error.filename)) == os.geteuid():
        sys.exit(str(error))


def _owner(path: str) -> int:
    """Of the path, or of the folder that hides it."""
    try:
        return os.lstat(path).st_uid
    except OSError:
        return _owner(str(Path(path).parent))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
