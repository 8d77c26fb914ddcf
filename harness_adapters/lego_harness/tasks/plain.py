"""What a task folder may contain: readable files and folders, and links that stay inside.

Invariant: after this check nothing in the folder blocks a reader (as a pipe would), leads out of it or forms a circle.
Reads no content.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lego_harness.errors import UsageError


def require_plain(root: Path) -> None:
    """Raises UsageError naming the first path below `root` that is anything else; a missing root is accepted."""
    inside = root.resolve()
    for folder, folders, names in os.walk(root, onerror=_unreadable):
        for name in (*folders, *names):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                _require_inside(path, inside)
            elif not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                raise UsageError(f"{path}: is neither a file nor a folder nor a link; take it out")
            elif not os.access(path, os.R_OK):
                raise UsageError(f"{path}: cannot be read; give yourself the right to")


def _require_inside(link: Path, inside: Path) -> None:
    try:
        target = link.resolve()
    except (OSError, RuntimeError) as error:  # until Python 3.13 a circle is the latter
        raise UsageError(f"{link}: links in a circle; take it out") from error
    if not target.is_relative_to(inside):
        raise UsageError(f"{link}: links out of the task folder; copy the file in")


def _unreadable(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise UsageError(f"{error.filename}: {error.strerror}; expected a folder that can be read") from error
