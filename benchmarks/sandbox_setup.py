"""Fifty sandboxes at once, each until it is handed out, against bare `docker run --detach` of the same image.

Ours begins its phase with its workspace filled, its limits set and its network proven closed; the bare container has
none of that. They take turns, so that what else the machine does meets both, and quantiles are over all rounds.
Harbor's Docker environment has its turns too where its needs are met: started on the same image, without network by
its task's own compose file, and with nothing copied into it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from benchmarks import sandbox_harbor
from benchmarks.containers import LABEL, quantile, run
from lego_harness.errors import SetupError
from lego_harness.sandbox import docker_engine as engine
from lego_harness.sandbox.base import Phase, SandboxSpec
from lego_harness.sandbox.docker import DockerBackend

AT_ONCE, ROUNDS = 50, 3
AIM = 1.3
FILES = {f"package/module{number}.py": b"ANSWER = 42\n" * 100 for number in range(20)}
BARE, OURS, HARBOR = "bare `docker run --detach`", "Lego-RL's sandbox", "Harbor's Docker environment"


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """Seconds of every set-up by what was set up, and why others were not."""

    at_once: int
    took: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    left_out: list[str] = field(default_factory=list[str])

    def times(self, share: float) -> float:
        """Our quantile as a multiple of the bare container's."""
        return quantile(self.took[OURS], share) / quantile(self.took[BARE], share)


def measure(at_once: int = AT_ONCE, rounds: int = ROUNDS, *, harbor: bool = True) -> Found:
    """All of them in turns."""
    found = Found(at_once=at_once, took={BARE: [], OURS: []})
    try:
        start_harbor = sandbox_harbor.starter() if harbor else None
    except SetupError as error:
        start_harbor = None
        found.left_out.append(f"{HARBOR}: {error}")
    for _ in range(rounds):
        found.took[BARE] += asyncio.run(_bare(at_once))
        found.took[OURS] += asyncio.run(_ours(at_once))
        if start_harbor is not None:
            found.took.setdefault(HARBOR, []).extend(start_harbor(at_once))
    return found


async def _bare(at_once: int) -> list[float]:
    names = [f"lego-{LABEL}-bare-{number}" for number in range(at_once)]
    try:
        return await asyncio.gather(*(_bare_one(name) for name in names))
    finally:
        await _call(engine.cli()[0], *engine.cli()[1:], "rm", "--force", *names)


async def _bare_one(name: str) -> float:
    command = ["sleep", "infinity"]
    started = time.perf_counter()
    await _call(*run("--detach", f"--name={name}", image=engine.default_image(), command=command))
    return time.perf_counter() - started


async def _call(*argv: str) -> None:
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*argv, stdout=quiet)
    if await process.wait() != 0:
        raise RuntimeError(f"{' '.join(argv[:6])} … exited with {process.returncode}")


async def _ours(at_once: int) -> list[float]:
    """None is closed before all are open."""
    backend, all_open = DockerBackend(), asyncio.Barrier(at_once)

    async def one() -> float:
        spec = SandboxSpec(phase=Phase.AGENT, files=FILES, label=LABEL)
        started = time.perf_counter()
        async with backend.open(spec):
            took = time.perf_counter() - started
            await all_open.wait()
        return took

    return await asyncio.gather(*(one() for _ in range(at_once)))


def report(found: Found) -> str:
    """As Markdown."""
    lines = [
        f"| {found.at_once} at once | p50, s | p90, s | × bare, p50 | × bare, p90 |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    bare = [quantile(found.took[BARE], share) for share in (0.5, 0.9)]
    for name, took in found.took.items():
        p50, p90 = quantile(took, 0.5), quantile(took, 0.9)
        lines.append(f"| {name} | {p50:.2f} | {p90:.2f} | {p50 / bare[0]:.2f} | {p90 / bare[1]:.2f} |")
    return "\n".join([*lines, *(f"\nNot measured: {why}" for why in found.left_out)])


def verdicts(found: Found) -> list[tuple[str, bool]]:
    """What was aimed at, and whether it was reached."""
    return [
        (
            f"set-up of {found.at_once} at once at most {AIM} times a bare container's, p{share * 100:.0f}: "
            f"{found.times(share):.2f} times",
            found.times(share) <= AIM,
        )
        for share in (0.5, 0.9)
    ]
