"""The routing rows of one session, on disk until it closes.

A session's rows are megabytes that nobody looks at before its end, and hundreds of sessions are open at
once: each turn's rows are appended to the session's own file, and a `RouteBlock` says where they lie.
Invariants: rows are written once and never changed; no descriptor stays open between turns; the file
begins with the first rows and is gone once the log is closed. Knows no tokens.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lego_harness.errors import EngineError
from lego_harness.types import Routes


@dataclass(frozen=True, kw_only=True, slots=True)
class RouteBlock:
    """Rows of consecutive positions."""

    start: int
    """Where they begin in the file, in bytes."""
    shape: tuple[int, int, int]
    """`[positions, L, K]`"""
    dtype: np.dtype[np.int8 | np.int16]

    def __len__(self) -> int:
        return self.shape[0]

    def first(self, num_rows: int) -> RouteBlock:
        """The rows of the first positions."""
        return replace(self, shape=(min(num_rows, len(self)), *self.shape[1:]))

    def of(self, data: bytes) -> Routes:
        """The rows, as a read-only view of what `RouteLog.close` gives."""
        rows = np.frombuffer(data, self.dtype, count=math.prod(self.shape), offset=self.start)
        return rows.reshape(self.shape)


class RouteLog:
    """Grows by `append`; raises EngineError when the disk does not play along."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._num_bytes = 0

    def append(self, rows: Routes) -> RouteBlock:
        """Put the rows behind all others."""
        start = self._num_bytes
        with self._disk(), self._path.open("ab") as file:
            self._expect(file.tell())
            self._num_bytes += file.write(np.ascontiguousarray(rows).data)
        return RouteBlock(start=start, shape=rows.shape, dtype=rows.dtype)

    def close(self) -> bytes:
        """Everything that was appended; nothing of it stays on disk."""
        with self._disk():
            try:
                data = self._path.read_bytes() if self._num_bytes else b""
            finally:
                self._path.unlink(missing_ok=True)
        self._expect(len(data))
        return data

    def _expect(self, num_bytes: int) -> None:
        if num_bytes != self._num_bytes:
            raise EngineError(
                f"routing rows: {self._path} has {num_bytes} bytes, expected {self._num_bytes}; let nobody else "
                "write or clean there"
            )

    @contextmanager
    def _disk(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise EngineError(
                f"routing rows cannot be kept in {self._path.parent} ({error.strerror}); free space there, or "
                "choose another folder for temporary files"
            ) from error
