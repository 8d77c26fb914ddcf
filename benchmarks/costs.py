"""Where the CPU time of our proxy goes, measured inside it while one call at a time is served.

    receive   the bytes of the body, from the socket into one piece
    json      those bytes, into the values that are new
    rest      everything else, the reply included

Owns the clocks, put around a few functions from outside. With calls side by side the shares
would mix; the sum stays right.
"""

from __future__ import annotations

import time
from asyncio.selector_events import _SelectorSocketTransport
from collections import Counter
from collections.abc import Callable
from typing import Any

from lego_harness.proxy import routes
from lego_harness.proxy.dialects import reader


class Costs:
    """Nanoseconds of this process since the clocks were put up."""

    def __init__(self) -> None:
        self._spent: Counter[str] = Counter()
        self._start = time.process_time_ns()

    def put_up(self) -> None:
        """From now on, shares are measured too; each costs a call some microseconds."""
        _SelectorSocketTransport._read_ready = self._around(_SelectorSocketTransport._read_ready, "receive")
        routes.body_of = self._around_read(routes.body_of)
        reader.Reader._closest = self._around(reader.Reader._closest, "json")  # type: ignore[method-assign]
        reader.read_json = self._around(reader.read_json, "json")

    def so_far(self) -> dict[str, int]:
        return {"total": time.process_time_ns() - self._start, "receive": 0, "json": 0, **self._spent}

    def _around(self, function: Callable[..., Any], share: str) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time_ns()
            try:
                return function(*args, **kwargs)
            finally:
                self._spent[share] += time.process_time_ns() - start

        return timed

    def _around_read(self, read: Callable[..., Any]) -> Callable[..., Any]:
        """Reading waits for the socket, whose own time is counted already."""

        async def timed(*args: Any) -> bytes:
            start, counted = time.process_time_ns(), self._spent["receive"]
            try:
                return await read(*args)
            finally:
                self._spent["receive"] = max(counted + time.process_time_ns() - start, self._spent["receive"])

        return timed
