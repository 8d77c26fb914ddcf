"""Run coroutines side by side: all succeed, or the first failure is raised and the rest cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def together(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order. Unlike a bare TaskGroup it raises the failure itself, not a group around it:
    one broken part must end in one clear line."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as errors:
        raise _first(errors) from errors
    return [task.result() for task in tasks]


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = errors.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
