"""The weights an engine served last, kept where its next process finds them.

One engine's folder holds at most one file, `weights/SEQUENCE-VERSION`, in checkpoint names. Invariant: the
file that `latest` names is complete, and does not change when the trainer overwrites or removes the file it came
from. It takes no space while trainer and engine share a file system, because it is a hard link; for weights that
arrived as changes it is the engine's own file.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lego_core.weight_files import assembled


class KeptWeights:
    """The kept weights of one engine; only one process at a time may use it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "weights"

    def whole(self, path: Path) -> Path:
        """`path`, or if it holds changes, a file that combines them with what was kept last. Raises EngineError."""
        if not path.is_file():
            return path
        self._folder.mkdir(exist_ok=True)
        last = self.latest()
        return assembled(path, last[0] if last else None, self._folder / "assembled")

    def keep(self, path: Path, version: int) -> None:
        """Keep the file `path` as policy `version`, and nothing older. Raises OSError."""
        self._folder.mkdir(exist_ok=True)
        older = self._entries()
        sequence = _sequence(older[-1]) + 1 if older else 0
        unfinished = self._folder / "unfinished"
        unfinished.unlink(missing_ok=True)  # of a process that ended meanwhile
        _link(path, unfinished)
        unfinished.rename(self._folder / f"{sequence}-{version}")
        for entry in older:
            entry.unlink()

    def latest(self) -> tuple[Path, int] | None:
        """What was kept last and its policy version; None before the first."""
        entries = self._entries()
        return (entries[-1], int(entries[-1].name.partition("-")[2])) if entries else None

    def _entries(self) -> list[Path]:
        """Oldest first; two only if a process ended between keeping one and removing the other."""
        return sorted(self._folder.glob("*-*"), key=_sequence)


def _sequence(entry: Path) -> int:
    return int(entry.name.partition("-")[0])


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)
    except OSError:  # another file system, or one without links
        shutil.copy(source, target)
