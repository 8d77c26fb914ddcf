"""1,000 open sessions of 20 turns and 8,000 tokens each: what the proxy's process holds in memory.

Routing rows of 48 layers with 8 experts, a byte each, are recorded too: they lie on disk.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp

from benchmarks.conversation import SHORT, Talk
from benchmarks.processes import memory, module, program

NUM_SESSIONS, AT_ONCE = 1000, 16


async def fill(control: str, num_sessions: int) -> None:
    """Conversations that are never closed."""
    places = asyncio.Semaphore(AT_ONCE)
    async with aiohttp.ClientSession() as http:
        await asyncio.gather(*(_converse(http, control, number, places) for number in range(num_sessions)))


async def _converse(
    http: aiohttp.ClientSession, control: str, number: int, places: asyncio.Semaphore
) -> None:
    async with places:
        async with http.post(f"{control}/open") as answer:
            url = (await answer.json())["url"]
        talk = Talk(SHORT, task=str(number))
        for _ in range(SHORT.num_turns):
            async with http.post(f"{url}/chat/completions", data=talk.body) as answer:
                talk.hear(json.loads(await answer.read()))


def measure(num_sessions: int = NUM_SESSIONS) -> dict[str, Any]:
    """Bytes before, and with all sessions open."""
    with program(module("benchmarks.serve_lego", "short", "--routes")) as (process, said):
        asyncio.run(fill(said["control"], 1))
        empty = memory(process)
        asyncio.run(fill(said["control"], num_sessions))
        full = memory(process)
    return {"num_sessions": num_sessions, "empty": empty, "full": full}


def report(found: dict[str, Any]) -> str:
    """As Markdown."""
    num, full, empty = found["num_sessions"], found["full"], found["empty"]
    each = (full - empty) / num / 2**20
    return (
        f"{num:,} open sessions of {SHORT.num_turns} turns: {full / 2**30:.2f} GiB ({empty / 2**30:.2f} GiB before, "
        f"{each:.2f} MiB each; routing rows on disk)."
    )


def verdicts(found: dict[str, Any]) -> list[tuple[str, bool]]:
    """What was aimed at, and whether it was reached."""
    gib = found["full"] / 2**30
    return [(f"1,000 open sessions in at most 1.5 GiB: {gib:.2f} GiB", gib <= 1.5)]


if __name__ == "__main__":
    print(report(measure()))  # noqa: T201
