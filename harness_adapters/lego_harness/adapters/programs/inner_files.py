"""Reads and writes one path inside a sandbox: `python3 inner_files.py`, one JSON object in, one out.

    in   {"look": PATH}               out  {"is": "missing"}
                                           {"is": "file", "size": N, "mtime_ns": N, "data": BASE64 or null}
                                           {"is": "folder", "entries": [[NAME, IS_FOLDER], …]}
                                           {"is": "other"}
    in   {"put": PATH, "data": BASE64}  out  {}
    out  {"errno": N, "why": TEXT, "path": TEXT}         when the system refuses

A folder is listed two levels deep, hidden names on the first only. Standard library only: it runs in the
sandbox's Python, with the agent's rights. Its answer is as untrusted as the sandbox.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import signal
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

_MAX_FILE_BYTES = 10 * 2**20
"""Of larger ones only the size is told."""
_MAX_ENTRIES = 5000
_LIMIT_S = 60
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)


def main() -> None:
    signal.alarm(_LIMIT_S)
    request = json.load(sys.stdin)
    try:
        if "look" in request:
            answer = _look(Path(request["look"]))
        else:
            answer = _put(Path(request["put"]), base64.b64decode(request["data"]))
    except OSError as error:
        path = os.fspath(error.filename or "")
        answer = {"errno": error.errno or errno.EIO, "why": error.strerror or str(error), "path": path}
    json.dump(answer, sys.stdout)


def _look(path: Path) -> dict[str, Any]:
    try:
        facts = path.stat()
    except (OSError, ValueError) as error:  # ValueError: no path could be called that
        if isinstance(error, OSError) and error.errno not in _ABSENT:
            raise
        return {"is": "missing"}
    if stat.S_ISDIR(facts.st_mode):
        return {"is": "folder", "entries": _entries(path)}
    if not stat.S_ISREG(facts.st_mode):
        return {"is": "other"}
    is_small = facts.st_size <= _MAX_FILE_BYTES
    data = base64.b64encode(path.read_bytes()).decode() if is_small else None
    return {"is": "file", "size": facts.st_size, "mtime_ns": facts.st_mtime_ns, "data": data}


def _entries(folder: Path) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    for child in sorted(folder.iterdir()):
        is_folder = child.is_dir()
        found.append((child.name, is_folder))
        if is_folder and not child.name.startswith("."):
            found += [(f"{child.name}/{inner.name}", inner.is_dir()) for inner in _visible(child)]
        if len(found) > _MAX_ENTRIES:
            break
    return found[:_MAX_ENTRIES]


def _visible(folder: Path) -> list[Path]:
    try:
        return sorted(child for child in folder.iterdir() if not child.name.startswith("."))[:_MAX_ENTRIES]
    except OSError:
        return []


def _put(path: Path, data: bytes) -> dict[str, Any]:
    """Whole or not at all, with the permissions of what it replaces."""
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    unfinished = Path(name)
    try:
        with open(fd, "wb") as file:  # noqa: PTH123 (a descriptor has no path)
            file.write(data)
        if path.exists():
            unfinished.chmod(stat.S_IMODE(path.stat().st_mode))
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink()
        raise
    return {}


if __name__ == "__main__":
    main()
