"""Side by side: all results, or one plain error."""

from __future__ import annotations

import asyncio

import pytest

from lego_core.together import together
from lego_harness.errors import SetupError


async def test_results_come_in_the_order_of_the_coroutines() -> None:
    async def after(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    assert await together(after(n) for n in (3, 1, 2)) == [3, 1, 2]


async def test_the_first_failure_is_raised_itself_and_cancels_the_rest() -> None:
    cancelled = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def fails() -> None:
        await asyncio.sleep(0)
        raise SetupError("no sandbox")

    with pytest.raises(SetupError, match="no sandbox"):
        await together([waits(), fails()])
    assert cancelled.is_set()
