"""Writes checkpoints to disk while training goes on, one at a time.

    step k trained ─▶ begin k: its state is copied ─▶ publish k, train k + 1 …
                         └──▶ written meanwhile ─▶ committed: reported, older ones removed

Invariant: steps are committed in order, and `finish` returns when no commit is under way. A write that fails ends the
run. If the run ends during a write, for whatever reason, that step is not committed and a resume trains it again.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lego_core.store.writer import RunWriter

Save = Callable[[Path, dict[str, Any]], Awaitable[None]]


@dataclass(kw_only=True, slots=True)
class Commits:
    """Of one run."""

    save: Save
    """The trainer's method: copies its state at the time of the call, returns when the copy is on disk."""
    writer: RunWriter
    keep: int
    """So many of the newest checkpoints."""
    needed: Collection[int]
    """Steps whose checkpoints are kept besides."""
    group: asyncio.TaskGroup
    _under_way: asyncio.Task[None] | None = None

    async def begin(self, step: int, state: dict[str, Any]) -> None:
        """Commit `step`, once the one before is committed."""
        await self.finish()
        self._under_way = self.group.create_task(self._commit(step, state))
        await asyncio.sleep(0)  # from here on the trainer knows: its next call comes after the copy

    async def finish(self) -> None:
        """Until what was begun is committed."""
        if self._under_way is not None:
            await self._under_way
            self._under_way = None

    async def _commit(self, step: int, state: dict[str, Any]) -> None:
        directory = self.writer.layout.checkpoint(step)
        await self.save(directory, state)
        self.writer.event("checkpoint", step=step, path=str(directory))
        for old in self.writer.layout.committed()[: -self.keep]:
            if int(old.name) not in self.needed:
                shutil.rmtree(old)
