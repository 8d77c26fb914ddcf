"""Harnesses at work: conversations side by side, each asking again as soon as it was answered.

In a process of its own, started by whoever measures. One JSON object in (argv), one out (stdout).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any

import aiohttp

from benchmarks.conversation import SHORT, Talk

JSON = {"Content-Type": "application/json"}
TIMEOUT = aiohttp.ClientTimeout(total=300)


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What is to be done."""

    place: dict[str, Any]
    """`{"control"}` where conversations are opened, else `{"url", "headers"}` for all of them."""
    num_sessions: int
    num_turns: int
    num_rounds: int = 1
    """Conversations of each session, one after the other."""


@dataclass(kw_only=True, slots=True)
class Done:
    """What happened."""

    latencies_s: list[float]
    wall_s: float = 0.0
    recorded: dict[str, int] | None = None
    """Of one conversation, at the program under test; None where it records nothing."""


async def run(load: Load) -> Done:
    done = Done(latencies_s=[])
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=TIMEOUT) as http:
        start = time.perf_counter()
        await asyncio.gather(*(_converse(http, load, done, number) for number in range(load.num_sessions)))
        done.wall_s = time.perf_counter() - start
    return done


async def _converse(http: aiohttp.ClientSession, load: Load, done: Done, number: int) -> None:
    for one in range(load.num_rounds):
        async with _place(http, load, done) as place:
            talk = Talk(SHORT, task=f"{number}/{one}")
            for _ in range(load.num_turns):
                await _turn(http, place, talk, done)


@asynccontextmanager
async def _place(http: aiohttp.ClientSession, load: Load, done: Done) -> AsyncGenerator[dict[str, Any]]:
    control = load.place.get("control")
    if control is None:
        yield load.place
        return
    async with http.post(f"{control}/open") as answer:
        place = await answer.json()
    yield place
    async with http.post(f"{control}/close", json=place) as answer:
        done.recorded = await answer.json()


async def _turn(http: aiohttp.ClientSession, place: dict[str, Any], talk: Talk, done: Done) -> None:
    start = time.perf_counter()
    headers = {**JSON, **place.get("headers", {})}
    async with http.post(f"{place['url']}/chat/completions", data=talk.body, headers=headers) as answer:
        raw = await answer.read()
    done.latencies_s.append(time.perf_counter() - start)
    if answer.status != 200:
        raise RuntimeError(f"{place['url']} answered {answer.status}: {raw[:500]!r}")
    talk.hear(json.loads(raw))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(asyncio.run(run(Load(**json.loads(sys.argv[1])))))) + "\n")
