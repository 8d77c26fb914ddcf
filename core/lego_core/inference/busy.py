"""How long at least one call was in flight, in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType


class BusyClock:
    """A context that any number of calls may be in at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._num_inside = 0
        self._since = self._seconds = 0.0

    def seconds(self) -> float:
        """Up to now."""
        return self._seconds + (self._clock() - self._since if self._num_inside else 0.0)

    def __enter__(self) -> None:
        if not self._num_inside:
            self._since = self._clock()
        self._num_inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._num_inside -= 1
        if not self._num_inside:
            self._seconds += self._clock() - self._since
