"""Appends bytes to a file so that readers see a piece completely or not at all.

Owns one descriptor per file. Invariant: after `append` returns the bytes are on disk; after it
raises the file is as it was. A process killed in between leaves a torn tail, which readers hold
back and the next writer cuts off.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from lego_harness.errors import InfrastructureError


class AppendFile:
    """One append-only file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.size = os.fstat(self._descriptor).st_size
        self._is_torn = False

    def append(self, data: bytes) -> int:
        """Write and sync; the offset `data` begins at. Raises InfrastructureError, e.g. disk full."""
        offset = self.size
        try:
            if self._is_torn:
                self._undo()
            written = os.write(self._descriptor, data)
            while written < len(data):  # a short write: the next one names the reason, or goes on
                written += os.write(self._descriptor, data[written:])
            os.fdatasync(self._descriptor)
        except OSError as error:
            self._is_torn = True
            with contextlib.suppress(OSError):  # where even this fails the next append tries again
                self._undo()
            raise write_failed(self.path, error) from error
        self.size += len(data)
        return offset

    def truncate(self, size: int) -> int:
        """Cut everything after `size`; returns how many bytes that were."""
        cut = self.size - size
        if cut > 0:
            os.ftruncate(self._descriptor, size)
            os.fsync(self._descriptor)
            self.size = size
        return max(cut, 0)

    def close(self) -> None:
        os.close(self._descriptor)

    def _undo(self) -> None:
        os.ftruncate(self._descriptor, self.size)
        self._is_torn = False


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is there completely or not at all. Raises OSError."""
    draft = path.with_name(path.name + ".part")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def write_failed(path: Path, error: OSError) -> InfrastructureError:
    """The one line a person gets when the run directory cannot be written."""
    return InfrastructureError(
        f"run store: writing {path} failed: {error.strerror or error}; nothing of it was kept. "
        "Free space or fix the disk, then continue with: lego train --resume " + str(_run_of(path))
    )


def _run_of(path: Path) -> Path:
    folder = path if path.is_dir() else path.parent
    return folder.parent if folder.name == "trajectories" else folder
