"""What a call costs, how long it takes and how many there are a second, beside other programs.

1, 32 and 256 harnesses hold conversations as `conversation.SHORT` has them, each asking again as soon as
it was answered. CPU time is that of the program's own process, seen from outside; opening and closing
conversations belongs to it. Upstream and load generator are processes of their own. What the upstream
needs alone is the first row; it is in every latency but that of our proxy with its engine in the process.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from benchmarks.contestants import ALL, LEGO, LITELLM, Contestant
from benchmarks.load import Done, Load
from benchmarks.processes import ROOT, cpu_s, environment, module, program

LOADS = (
    {"num_sessions": 1, "num_turns": 20, "num_rounds": 3},
    {"num_sessions": 32, "num_turns": 20},
    {"num_sessions": 256, "num_turns": 5},
)
WARM_UP = {"num_sessions": 4, "num_turns": 10}


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One program under one load."""

    name: str
    num_sessions: int
    calls_per_s: float
    cpu_ms: float
    """Per call."""
    p50_ms: float
    p99_ms: float


def measure(contestants: tuple[Contestant, ...] = ALL) -> list[Row]:
    """All of them, one after the other."""
    with program(module("benchmarks.upstream"), under_test=False) as (upstream, served):
        place = {"url": f"{served['url']}/v1", "headers": {}}
        rows = list(_rows("(the upstream alone)", upstream, place))
        for contestant in contestants:
            with contestant.running(served["url"]) as (process, place):
                rows += _rows(contestant.name, process, place)
    return rows


def _rows(name: str, process: psutil.Process, place: dict[str, Any]) -> Iterator[Row]:
    generate(Load(place=place, **WARM_UP))
    for load in LOADS:
        before = cpu_s(process)
        done = generate(Load(place=place, **load))
        yield _row(name, load["num_sessions"], done, cpu_s(process) - before)


def generate(load: Load) -> Done:
    """Let a load generator do it."""
    said = subprocess.run(
        module("benchmarks.load", json.dumps(asdict(load))),
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return Done(**json.loads(said.stdout))


def _row(name: str, num_sessions: int, done: Done, spent_s: float) -> Row:
    latencies = sorted(done.latencies_s)
    return Row(
        name=name,
        num_sessions=num_sessions,
        calls_per_s=len(latencies) / done.wall_s,
        cpu_ms=spent_s * 1000 / len(latencies),
        p50_ms=statistics.median(latencies) * 1000,
        p99_ms=latencies[int(0.99 * len(latencies))] * 1000,
    )


def report(rows: list[Row]) -> str:
    """As Markdown."""
    ours = {row.num_sessions: row for row in rows if row.name == LEGO.name}
    lines = [
        "| program | sessions | calls/s | CPU ms per call | × ours | p50 ms | p99 ms |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        times = row.cpu_ms / ours[row.num_sessions].cpu_ms
        lines.append(
            f"| {row.name} | {row.num_sessions} | {row.calls_per_s:.0f} | {row.cpu_ms:.2f} | {times:.1f} "
            f"| {row.p50_ms:.1f} | {row.p99_ms:.1f} |"
        )
    return "\n".join(lines)


def verdicts(rows: list[Row]) -> list[tuple[str, bool]]:
    """What was aimed at, and whether it was reached."""
    cpu = {(row.name, row.num_sessions): row.cpu_ms for row in rows}
    times = [
        cpu[LITELLM.name, num] / cpu[LEGO.name, num] for num in sorted({row.num_sessions for row in rows})
    ]
    said = ", ".join(f"{ratio:.1f}" for ratio in times)
    return [(f"at least 5 times less CPU per call than LiteLLM's proxy: {said} times", min(times) >= 5)]


if __name__ == "__main__":
    print(report(measure()))  # noqa: T201
