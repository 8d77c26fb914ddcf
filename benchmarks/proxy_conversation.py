"""One conversation of 200 turns and 150,000 tokens: what a call costs early, and what it costs late.

    total      CPU time of the proxy's process for a call, its engine (instant) included
    receive    … for the bytes of the body: the whole history, as harnesses send it
    json       … to read what is new of them
    ids        beside it: to pickle the request to the engine, as a call into another process would
    rest       total − receive − json: locating, rendering, tokenising, parsing, recording, answering

`rest` should not grow with the conversation. The conversation is held NUM_TIMES, and of each call the least
is taken: what it costs more at other times is the machine's doing.
"""

from __future__ import annotations

import asyncio
import pickle
import statistics
import time
from itertools import pairwise
from typing import Any

import aiohttp
import numpy as np

from benchmarks.conversation import LONG, Talk
from benchmarks.processes import module, program

NUM_TIMES = 8
EARLY, LATE, AROUND = 10, 190, 9
PARTS = ("total", "receive", "json", "rest")
WHAT = {
    "total": "total",
    "receive": "of it to receive the body",
    "json": "of it to read the JSON",
    "rest": "of it the rest",
    "ids": "beside it: the context's ids, pickled and back",
}


async def converse(control: str) -> tuple[list[dict[str, int]], dict[str, int]]:
    """Costs of each call in nanoseconds, and what the capture holds at the end."""
    calls: list[dict[str, int]] = []
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{control}/open") as answer:
            place = await answer.json()
        talk = Talk(LONG)
        for _ in range(LONG.num_turns):
            before = await _costs(http, control)
            async with http.post(f"{place['url']}/chat/completions", data=talk.body, headers=JSON) as answer:
                reply = await answer.json()
            after = await _costs(http, control)
            calls.append({part: after[part] - before[part] for part in before})
            talk.hear(reply)
        async with http.post(f"{control}/close", json=place) as answer:
            return calls, await answer.json()


JSON = {"Content-Type": "application/json"}


async def _costs(http: aiohttp.ClientSession, control: str) -> dict[str, int]:
    async with http.get(f"{control}/costs") as answer:
        return await answer.json()


def measure() -> dict[str, Any]:
    """Milliseconds per call, early and late, and CPU seconds of the whole conversation."""
    with program(module("benchmarks.serve_lego", "long", "--shares")) as (_, said):
        asyncio.run(converse(said["control"]))  # caches warm up
        held = [asyncio.run(converse(said["control"])) for _ in range(NUM_TIMES)]
        idle = asyncio.run(_idle_costs(said["control"]))
    captured = held[0][1]
    calls = [
        min(same, key=lambda call: call["total"]) for same in zip(*(calls for calls, _ in held), strict=True)
    ]
    for call in calls:
        call["total"] -= idle
        call["rest"] = call["total"] - call["receive"] - call["json"]
    early, late = (_median(calls, turn) for turn in (EARLY, LATE))
    return {
        "tokens": captured["tokens"],
        "early": {**early, "ids": _pickling_ms(captured["tokens"] * EARLY // len(calls))},
        "late": {**late, "ids": _pickling_ms(captured["tokens"] * LATE // len(calls))},
        "cpu_s": sum(call["total"] for call in calls) / 1e9,
        "flatness": late["rest"] / early["rest"],
    }


async def _idle_costs(control: str, num: int = 50) -> int:
    """What asking for the costs costs at least."""
    async with aiohttp.ClientSession() as http:
        seen = [(await _costs(http, control))["total"] for _ in range(num)]
    return min(after - before for before, after in pairwise(seen))


def _median(calls: list[dict[str, int]], turn: int) -> dict[str, float]:
    near = calls[turn - AROUND : turn + AROUND + 1]
    return {part: statistics.median(call[part] for call in near) / 1e6 for part in PARTS}


def _pickling_ms(num_ids: int) -> float:
    ids = np.arange(num_ids, dtype=np.int32)
    start = time.process_time()
    for _ in range(20):
        pickle.loads(pickle.dumps(ids))
    return (time.process_time() - start) * 1000 / 20


def report(found: dict[str, Any]) -> str:
    """As Markdown."""
    early, late = found["early"], found["late"]
    lines = [
        f"{LONG.num_turns} turns, {found['tokens']:,} tokens: {found['cpu_s']:.2f} CPU seconds in all.",
        "",
        f"| CPU ms per call | at turn {EARLY} | at turn {LATE} | ratio |",
        "| --- | ---: | ---: | ---: |",
    ]
    for part in (*PARTS, "ids"):
        ratio = late[part] / early[part]
        lines.append(f"| {WHAT[part]} | {early[part]:.2f} | {late[part]:.2f} | {ratio:.2f} |")
    return "\n".join(lines)


def verdicts(found: dict[str, Any]) -> list[tuple[str, bool]]:
    """What was aimed at, and whether it was reached."""
    rest, ratio = found["late"]["rest"], found["flatness"]
    return [
        (f"the rest at turn {LATE} at most 1.5 times that at turn {EARLY}: {ratio:.2f} times", ratio <= 1.5),
        (f"the rest at most 3 ms of CPU: {rest:.2f} ms", rest <= 3),
    ]


if __name__ == "__main__":
    print(report(measure()))  # noqa: T201
