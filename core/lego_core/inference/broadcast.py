"""One broadcast of new weights, from the trainer to all engines of a pool at once.

    all engines serve ─▶ the trainer opens a meeting ─▶ it sends, they receive ─▶ all hold version k, and keep its file

The trainer writes the file meanwhile (`weight_broadcast.py`) and no engine reads it, unless it is started again: then
it comes back with that version, as with files alone. Invariant: when `publish` returns, every engine holds the version
and has kept its file. When it raises, because somebody died, hung or could not reach the others, engines may hold a
mixture: the run ends, and a resumed one publishes the same weights again. Every wait in it is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from lego_core.together import together
from lego_core.weight_broadcast import Meeting
from lego_harness.errors import EngineError, EngineUnavailable, LegoError


class Sender(Protocol):
    """The trainer, as `RayTrainer`; it has begun to export the weights to send."""

    async def invite(self, num_engines: int, dtype: str, timeout_s: float) -> Meeting: ...

    async def broadcast(self, meeting: Meeting) -> None: ...


class Receiver(Protocol):
    """An engine, as `RayEngine`."""

    async def wait_until_serving(self) -> None: ...

    async def receive(self, meeting: Meeting, weights: Path, version: int) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Broadcaster:
    """From one trainer to its engines."""

    sender: Sender
    engines: Sequence[Receiver]
    dtype: str
    """The engines'."""
    timeout_s: float
    """For all to meet, and again for each packet of tensors."""

    async def publish(self, weights: Path, version: int) -> None:
        """Serve the trainer's weights, of which `weights` is the file, as policy `version`. Raises EngineError that
        tells what each part said, the dead first."""
        await together(engine.wait_until_serving() for engine in self.engines)
        meeting = await self.sender.invite(len(self.engines), self.dtype, self.timeout_s)
        parts = [
            engine.receive(replace(meeting, rank=rank), weights, version)
            for rank, engine in enumerate(self.engines, start=1)
        ]
        ends = await asyncio.gather(*parts, self.sender.broadcast(meeting), return_exceptions=True)
        if failures := [end for end in ends if isinstance(end, BaseException)]:
            raise _as_one(failures, version)


def _as_one(failures: Sequence[BaseException], version: int) -> BaseException:
    """When one part fails the others do so too, in any order."""
    for failure in failures:
        if not isinstance(failure, LegoError):
            return failure
    told = sorted(failures, key=lambda failure: not isinstance(failure, EngineUnavailable))
    return EngineError(
        f"broadcasting version {version} failed, and engines may hold a mixture: "
        f"{'; '.join(map(str, told))}; resume the run"
    )
