"""Runs inside a sandbox: PATTERN ROOT… ─▶ paths of files below the roots that match, one a line.

Follows no link. Left out: the kernel's own folders, the workspace, and mounts that nobody can write: they are the
harness's or the grader's, unless they are roots. `WRITABLE` for a root stands for every mount that can be written.
Invariant: it ends with 0 only when it read all that its user can read or open up; what is closed to that user is closed
to the agent. Needs the standard library only.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

WRITABLE = "*"
_OTHERS = {"/proc", "/sys", "/dev", "/workspace"}
_KERNELS = ("/proc/", "/sys/")


def main(pattern: str, roots: list[str]) -> None:
    """Print what is found; exits with a reason where a folder cannot be read."""
    stored = re.compile(pattern)
    for root in (place for name in roots for place in _places(name)):
        for path in _files_below(root):
            if stored.search(path):
                sys.stdout.buffer.write(os.fsencode(path).replace(b"\n", b"?") + b"\n")


def _places(root: str) -> list[str]:
    if root != WRITABLE:
        return [str(Path(root).expanduser())]
    lines = Path("/proc/self/mounts").read_text(errors="surrogateescape").splitlines()
    mounts = (line.split(" ")[1:4:2] for line in lines)
    places = [_unquoted(place) for place, options in mounts if "rw" in options.split(",")]
    return [
        place
        for place in dict.fromkeys(places)
        if place not in _OTHERS and not place.startswith(_KERNELS) and Path(place).is_dir()
    ]


def _unquoted(place: str) -> str:
    """As the kernel writes blanks and backslashes of a path."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), place)


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
