"""An environment that is mounted from one compressed file, against the same one as an image that is brought whole.

Both begin with nothing of the environment on the machine's engine and go through the same commands in a sandbox on the
same base image. Of the mounted one every byte counts that was read of its file, which may lie on another machine's
disk; nothing of it is written. Of the image those count that came over the network, and those that the engine wrote.
Files are read a second time from memory; the first time, from the disk, after the kernel was told to forget them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.containers import LABEL, scratch
from benchmarks.environments import ENVIRONMENTS, PLACE, Environment, laid_out, packed
from benchmarks.transfer import Transfer, engine_written, transfer
from lego_harness.cache import cache_folder
from lego_harness.sandbox import docker_engine as engine
from lego_harness.sandbox import lazy
from lego_harness.sandbox.base import Limits, Mount, Phase, Sandbox, SandboxSpec
from lego_harness.sandbox.docker import DockerBackend
from lego_harness.sandbox.runtimes import python_runtime

FORMATS = ("squashfs", "erofs")
AIM = 5
_READ = """
import os, sys, time
files = [os.path.join(top, name) for top, _, names in os.walk(sys.argv[1]) for name in names]
def read(path, forget):
    with open(path, "rb", buffering=0) as file:
        if forget:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return 0
        return sum(len(chunk) for chunk in iter(lambda: file.read(1 << 20), b""))
if sys.argv[2] == "forget":
    [read(path, True) for path in files]
else:
    started = time.perf_counter()
    print(sum(read(path, False) for path in files) / (time.perf_counter() - started) / 1e6)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """Where a delivery stood after a command; all since its beginning."""

    what: str
    seconds: float
    moved: int
    """Bytes of the environment that came from where it lies."""
    written: int | None
    """Bytes that the engine's machine wrote to its disk; None where that cannot be seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """One environment brought in one way."""

    environment: str
    way: str
    moments: list[Moment]
    cold_mb_s: float
    """Reading all files inside, one after the other, from the disk."""
    warm_mb_s: float


def measure(
    environments: Sequence[Environment] = ENVIRONMENTS, formats: Sequence[str] = FORMATS
) -> list[Delivery]:
    """Every environment in every way; raises SetupError without root or the packers."""
    python_runtime(cache_folder())
    found: list[Delivery] = []
    for environment in environments:
        with laid_out(environment) as folder, transfer(environment.name, folder) as image:
            files = [packed(environment, folder, form) for form in formats]
            found += [asyncio.run(_mounted(environment, file)) for file in files]
            found.append(asyncio.run(_whole(environment, image)))
    return found


async def _mounted(environment: Environment, file: Path) -> Delivery:
    _forget(file)
    with scratch("lazy-mounts") as cache:
        started, written = time.perf_counter(), engine_written()
        try:
            mount = lazy.mounted(file, PLACE, cache=cache)
            async with _opened(mounts=(mount,)) as sandbox:
                tell = _teller(started, lambda: lazy.moved_bytes(mount), written)
                return await _used(environment, file.suffix[1:], sandbox, tell, lambda: _forget(file))
        finally:
            lazy.release(cache)


async def _whole(environment: Environment, image: Transfer) -> Delivery:
    started, written = time.perf_counter(), engine_written()
    moved = await asyncio.to_thread(image.bring)
    async with _opened(image=image.tag) as sandbox:
        tell = _teller(started, lambda: moved, written)
        return await _used(environment, image.way, sandbox, tell, os.sync)


@contextlib.asynccontextmanager
async def _opened(*, image: str | None = None, mounts: tuple[Mount, ...] = ()) -> AsyncGenerator[Sandbox]:
    limits = Limits(memory_mb=4096)
    spec = SandboxSpec(phase=Phase.AGENT, files={}, label=LABEL, limits=limits, image=image, mounts=mounts)
    async with DockerBackend().open(spec) as sandbox:
        yield sandbox


def _teller(started: float, moved: Callable[[], int], before: int | None) -> Callable[[str], Moment]:
    def tell(what: str) -> Moment:
        now, took = engine_written(), time.perf_counter() - started
        written = None if now is None or before is None else now - before
        return Moment(what=what, seconds=took, moved=moved(), written=written)

    return tell


async def _used(
    environment: Environment,
    way: str,
    sandbox: Sandbox,
    tell: Callable[[str], Moment],
    forget: Callable[[], object],
) -> Delivery:
    moments: list[Moment] = []
    for what, code in (("first command", "pass"), *environment.uses):
        code = f"import sys; sys.path.append({PLACE!r}); {code}"
        done = await sandbox.exec(["python3", "-B", "-c", code], timeout_s=600)
        if done.exit_code != 0:
            raise RuntimeError(f"{what} of {environment.name} failed, {way}: {done.stderr[-500:]}")
        moments.append(tell(what))
    await _read(sandbox, "forget")
    await asyncio.to_thread(forget)
    await _read(sandbox, "forget")
    cold = float(await _read(sandbox, "read"))
    moments.append(tell("all files"))
    return Delivery(
        environment=environment.name,
        way=way,
        moments=moments,
        cold_mb_s=cold,
        warm_mb_s=float(await _read(sandbox, "read")),
    )


async def _read(sandbox: Sandbox, how: str) -> str:
    done = await sandbox.exec(["python3", "-c", _READ, PLACE, how], timeout_s=900)
    if done.exit_code != 0:
        raise RuntimeError(f"files cannot be read: {done.stderr[-500:]}")
    return done.stdout


def _forget(file: Path) -> None:
    """Let the kernel drop what it holds of a file."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def report(found: list[Delivery]) -> str:
    """As Markdown."""
    lines = [
        "| environment | delivery | " + " | ".join(WHAT) + " |",
        "| --- | --- |" + " ---: |" * len(WHAT),
    ]
    for one in found:
        first, *_, last = one.moments
        used = one.moments[-2]
        written = "?" if last.written is None else f"{last.written / 1e6:.0f}"
        lines.append(
            f"| {one.environment} | {one.way} | {first.seconds:.2f} | {used.seconds:.2f} | {first.moved / 1e6:.1f} "
            f"| {used.moved / 1e6:.1f} | {last.moved / 1e6:.0f} | {written} | {one.cold_mb_s:.0f} | {one.warm_mb_s:.0f} |"
        )
    uses = "; ".join(
        f"{one.name}: {', '.join(what for what, _ in one.uses)}"
        for one in ENVIRONMENTS
        if one.name in {delivery.environment for delivery in found}
    )
    return "\n".join([*lines, "", f"What is used of them: {uses}.", "", f"SOCI: {soci()}."])


WHAT = (
    "first command, s", "used, s", "moved by then, MB: first command", "used", "all read",
    "written to disk, MB", "reads inside, cold, MB/s", "warm",
)  # fmt: skip


def soci() -> str:
    """Why no image is pulled lazily by the engine itself."""
    with engine.client() as client:
        said = client.info()
    if said["Driver"] == "soci":
        return "the engine has it, but `docker pull` brings an image whole all the same; not measured"
    return f"not measured, engine {said['ServerVersion']} keeps images by {said['Driver']}, which pulls nothing lazily"


def verdicts(found: list[Delivery]) -> list[tuple[str, bool]]:
    """What was aimed at, and whether it was reached: by the slowest of the lazy ways in each environment."""
    ratios = [_ratio(found, one.environment) for one in found if one.way not in FORMATS]
    said = ", ".join(f"{ratio:.1f}" for ratio in ratios)
    is_reached = bool(ratios) and statistics.median(ratios) >= AIM
    return [
        (f"a lazily mounted environment {AIM} times sooner at its first command than a whole image: {said} times",
         is_reached)
    ]  # fmt: skip


def _ratio(found: list[Delivery], environment: str) -> float:
    first = {one.way: one.moments[0].seconds for one in found if one.environment == environment}
    lazily = [seconds for way, seconds in first.items() if way in FORMATS]
    (whole,) = (seconds for way, seconds in first.items() if way not in FORMATS)
    return whole / max(lazily)
