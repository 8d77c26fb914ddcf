"""Tells in the run's events when an engine's process is another one than before.

Owns what the processes of the engines were at the last step. An engine that died is started again by Ray, and the
run goes on (`inference/ray_engine.py`): whoever looks for the cause of a change should see it. Restarts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from lego_core.store.writer import RunWriter

EVENT = "engine_restarted"


class HasProcesses(Protocol):
    """Engines, as far as this is concerned."""

    async def pids(self) -> Mapping[str, int]: ...


class Restarts:
    """Asked before the first step and after each."""

    def __init__(self, engines: HasProcesses, writer: RunWriter) -> None:
        self._engines, self._writer = engines, writer
        self._known: dict[str, int] = {}

    async def tell(self, step: int) -> None:
        """An event for each engine that serves from another process than when it was last seen."""
        for name, pid in (await self._engines.pids()).items():
            if self._known.setdefault(name, pid) != pid:
                self._writer.event(EVENT, step=step, engine=name)
                self._known[name] = pid
