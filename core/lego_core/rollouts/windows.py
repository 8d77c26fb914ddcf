"""Which steps' rollouts are under way.

    admitted(step) ──▶ in flight ──▶ whole ──▶ taken by the trainer, in the order of steps

Invariant: every step is started once and taken once, whichever finishes first. The caller of `admit`
decides how far ahead of the trainer rollouts may begin. Knows no versions and no trajectories.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Windows(Generic[T]):
    """The rollouts of consecutive steps, as tasks of `group`: a failure in any of them ends the group,
    also while nobody waits for that step yet."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        collect: Callable[[int], Coroutine[Any, Any, T]],
        *,
        first: int,
        last: int,
    ) -> None:
        self._group, self._collect = group, collect
        self._next, self._last = first, last
        self._tasks: dict[int, asyncio.Task[T]] = {}

    def admit(self, up_to: int) -> None:
        """Let the rollouts of every step up to this one begin."""
        while self._next <= min(up_to, self._last):
            self._tasks[self._next] = self._group.create_task(self._collect(self._next))
            self._next += 1

    async def take(self, step: int) -> T:
        """What the rollouts of an admitted step came to, once all of them have ended."""
        return await self._tasks.pop(step)
