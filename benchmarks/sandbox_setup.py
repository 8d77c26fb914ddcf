"""Set-up of a sandbox: seconds until an agent could begin, alone and 50 at once, beside a bare `docker run`.

Ours counts limits, a private workspace that is filled and a network that is proven closed; the bare run has
none of it and is the floor: `docker run --detach --network none` of the same image with the same client on the
same engine. Both take turns, so that a busy moment hits both. Removal is not counted, for either.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from lego_harness.sandbox import docker_engine
from lego_harness.sandbox.base import Phase, SandboxSpec
from lego_harness.sandbox.docker import DockerBackend
from lego_harness.sandbox.processes import run_bounded

AT_ONCE, NUM_ALONE, NUM_ROUNDS = 50, 20, 2
FILES = {f"package/module_{number}.py": b"def f():\n    return 1\n" * 50 for number in range(50)}
Opening = Callable[[], Awaitable[tuple[float, Callable[[], Awaitable[object]]]]]


async def _ours(backend: DockerBackend) -> tuple[float, Callable[[], Awaitable[object]]]:
    """Seconds to an open sandbox, and what closes it."""
    spec = SandboxSpec(phase=Phase.AGENT, files=FILES, label="benchmark")
    started = time.monotonic()
    opening = backend.open(spec)
    await opening.__aenter__()
    return time.monotonic() - started, lambda: opening.__aexit__(None, None, None)


async def _bare() -> tuple[float, Callable[[], Awaitable[object]]]:
    name = f"lego-benchmark-{secrets.token_hex(6)}"
    command = [*docker_engine.cli(), "run", "--detach", "--network=none", f"--name={name}"]
    started = time.monotonic()
    ended = await run_bounded(
        [*command, docker_engine.default_image(), "sleep", "infinity"], timeout_s=300, output_bytes=10_000
    )
    took = time.monotonic() - started
    if ended.exit_code != 0:
        raise RuntimeError(f"docker run failed: {ended.stderr!r}")
    return took, lambda: asyncio.to_thread(docker_engine.remove, name)


async def _batch(opening: Opening, at_once: int) -> list[float]:
    done = await asyncio.gather(*(opening() for _ in range(at_once)))
    await asyncio.gather(*(close() for _, close in done))
    return [took for took, _ in done]


async def _measured(at_once: int, rounds: int) -> dict[str, list[float]]:
    backend = DockerBackend()
    kinds: dict[str, Opening] = {"ours": lambda: _ours(backend), "bare": _bare}
    for opening in kinds.values():  # imports, first connections
        await _batch(opening, 1)
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, opening in kinds.items():
            found[name] += await _batch(opening, at_once)
    return found


def measure(
    at_once: int = AT_ONCE, num_alone: int = NUM_ALONE, num_rounds: int = NUM_ROUNDS
) -> list[dict[str, Any]]:
    """p50 and p90 in seconds, per kind and number at once."""
    rows: list[dict[str, Any]] = []
    for together, rounds in ((1, num_alone), (at_once, num_rounds)):
        for name, took in asyncio.run(_measured(together, rounds)).items():
            cut = statistics.quantiles(took, n=10)
            rows.append({"name": name, "at_once": together, "p50": statistics.median(took), "p90": cut[-1]})
    return rows


def report(found: list[dict[str, Any]]) -> str:
    """As Markdown."""
    lines = ["| set-up of a container | at once | p50 s | p90 s |", "| --- | --- | --- | --- |"]
    names = {"ours": "sandbox, filled and proven closed", "bare": "`docker run`"}
    return "\n".join(
        lines + [f"| {names[r['name']]} | {r['at_once']} | {r['p50']:.2f} | {r['p90']:.2f} |" for r in found]
    )


def verdicts(found: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """What was aimed at, and whether it was reached."""
    many = max(row["at_once"] for row in found)
    ours, bare = (
        next(row for row in found if row["name"] == name and row["at_once"] == many)
        for name in ("ours", "bare")
    )
    ratio = ours["p50"] / bare["p50"]
    return [
        (f"set-up, {many} at once, in at most 1.3 times a bare docker run (p50): {ratio:.2f}", ratio <= 1.3)
    ]


if __name__ == "__main__":
    rows = measure()
    print(report(rows), *verdicts(rows), sep="\n")  # noqa: T201
