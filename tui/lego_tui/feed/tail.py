"""The new complete lines of a file that somebody else appends to.

Invariants: a torn last line is held back; a missing file has no lines; one that shrank (a resumed
writer cut a torn tail) is read on from its new end. Reads a bounded piece at a time.
"""

from __future__ import annotations

from pathlib import Path

PIECE = 4 * 2**20
"""Bytes of one read: some milliseconds of parsing."""


class Tail:
    """One file, followed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        """Bytes that were handed out."""
        self.number = 0
        """Lines that were handed out."""
        self.is_behind = False
        """True when the file holds more than was read."""
        self.trouble = ""

    def read(self) -> list[bytes]:
        """The next whole lines, at most a piece of them."""
        try:
            size = self.path.stat().st_size
            if size <= self.offset:
                self.offset, self.is_behind = min(size, self.offset), False
                return []
            return self._lines(size)
        except FileNotFoundError:
            self.trouble = ""
        except OSError as error:
            self.trouble = f"{self.path.name}: cannot be read: {error.strerror}"
        self.is_behind = False
        return []

    def _lines(self, size: int) -> list[bytes]:
        length = PIECE
        while True:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read(length)
            whole = data.rfind(b"\n") + 1
            if whole or len(data) < length:
                break
            length *= 4  # one line longer than a piece
        self.offset += whole
        self.is_behind = bool(whole) and self.offset < size
        lines = data[:whole].splitlines()
        self.number += len(lines)
        return lines
