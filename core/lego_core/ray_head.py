"""Ends a run whose Ray cluster has lost its head.

Ray itself says nothing of it for a minute, in which actors go on, and then ends the whole process without a word.
Invariant: the body runs only while the head can be reached, and after that it is cancelled in time to put its
processes away and to say why. Starts and stops nothing itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lego_core.together import task_group
from lego_harness.errors import InfrastructureError

LOOK_EVERY_S = 2.0
PATIENCE = 5
"""Looks in a row that fail before the head is given up: a busy one may miss some, a dead one misses all."""


@asynccontextmanager
async def while_head_answers(address: str) -> AsyncIterator[None]:
    """Run the body; raises InfrastructureError as soon as nothing has listened at `address` (`HOST:PORT`) for a while."""
    async with task_group() as group:
        watch = group.create_task(_until_silent(address))
        yield
        watch.cancel()


async def _until_silent(address: str) -> None:
    missed = 0
    while missed < PATIENCE:
        await asyncio.sleep(LOOK_EVERY_S)
        missed = 0 if await _listens(address) else missed + 1
    raise InfrastructureError(f"the head of the Ray cluster at {address} ended; resume the run")


async def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), LOOK_EVERY_S)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
