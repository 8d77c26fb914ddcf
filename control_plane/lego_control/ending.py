"""Commands that open sandboxes end in an orderly way when they are told to.

Invariant: SIGTERM and SIGHUP cancel the command, so that every open sandbox is closed, and its exit code
says so. Ctrl-C does that by itself; what a killed command leaves behind is reaped by the next one.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

ENDED = 128 + signal.SIGTERM
"""Exit code of a command that was told to end."""


def run_to_its_end(command: Coroutine[Any, Any, int]) -> int:
    """The command's exit code, or ENDED."""
    try:
        return asyncio.run(_ending_on_signals(command))
    except asyncio.CancelledError:
        return ENDED


async def _ending_on_signals(command: Coroutine[Any, Any, int]) -> int:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await command
