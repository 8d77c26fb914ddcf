"""An event loop whose clock jumps: `asyncio.sleep(3600)` takes no time and passes an hour.

Owns only the clock. Invariant: time never moves while anything can run, so that code between two
awaits takes no virtual time. Code that waits for the outside world (a socket, a thread) does not belong
under it: when nothing but that is left, the loop says so instead of hanging.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, in virtual time, which begins at 0. Raises RuntimeError if everything waits for ever."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its selector, asked to wait, moves the clock instead."""

    def __init__(self) -> None:
        self.now_s = 0.0
        super().__init__(_Jump(self))

    def time(self) -> float:
        return self.now_s


# DefaultSelector is a name for whichever selector the platform has, which no checker takes for a class.
class _Jump(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise RuntimeError("virtual time: everything waits for something that cannot happen any more")
        self._loop.now_s += timeout
        return ready
