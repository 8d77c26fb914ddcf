"""What the figures about sandboxes share: pairs of durations, bare containers, and an image with package managers.

Invariant: every container and image made here bears a label of ours, and is gone when a figure ends, however it ends;
one that a killed benchmark left is removed by `lego sandbox reap`.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lego_harness.cache import cache_folder
from lego_harness.sandbox import docker_engine as engine
from lego_harness.sandbox.docker_container import labels
from lego_harness.sandbox.images import ImageCache

LABEL = "benchmark"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Package managers in a container trust what this machine trusts."""
TRUST = ("PIP_CERT", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """The same thing done with what we do about it, and without."""

    what: str
    with_s: float
    without_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Pairs of one optimisation, and the ratio that the paper found."""

    name: str
    pairs: list[Pair]
    paper: float

    @property
    def ratio(self) -> float:
        """The median of paired ratios: how many times longer it takes without."""
        return statistics.median(self._ratios())

    def row(self) -> str:
        """As Markdown: medians in seconds, the ratio with its 10th and 90th percentile, the paper's."""
        with_s, without_s = (statistics.median(s) for s in zip(*map(_both, self.pairs), strict=True))
        low, high = (quantile(self._ratios(), share) for share in (0.1, 0.9))
        return (
            f"| {self.name} ({', '.join(pair.what for pair in self.pairs)}) | {with_s:.2f} | {without_s:.2f} "
            f"| {self.ratio:.1f} ({low:.1f}–{high:.1f}) | {self.paper:g} |"
        )

    def _ratios(self) -> list[float]:
        return [pair.without_s / pair.with_s for pair in self.pairs]


HEADER = (
    "| optimisation | with, s | without, s | × (p10–p90) | paper × |\n| --- | ---: | ---: | ---: | ---: |"
)


def _both(pair: Pair) -> tuple[float, float]:
    return pair.with_s, pair.without_s


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of them do not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def seconds(act: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def run(*flags: str, image: str, command: Sequence[str], network: str = "none") -> list[str]:
    """The command line of a bare container: labelled, else as the engine makes them."""
    named = [f"--label={name}={value}" for name, value in labels(LABEL).items()]
    return [*engine.cli(), "run", *named, f"--network={network}", *flags, image, *command]


def trusting() -> list[str]:
    """Flags of a container whose package managers reach their registries as this machine does."""
    if not CERTIFICATES.is_file():
        return []
    mount = f"--volume={CERTIFICATES}:{CERTIFICATES}:ro"
    return [mount, *(f"--env={name}={CERTIFICATES}" for name in TRUST)]


def call(argv: Sequence[str], *, stdin: bytes | None = None) -> str:
    """Its output; raises RuntimeError with its last words."""
    ended = subprocess.run(argv, input=stdin, capture_output=True)
    if ended.returncode != 0:
        said = (ended.stderr or ended.stdout).decode("utf-8", "replace").strip()[-500:]
        raise RuntimeError(f"{' '.join(argv[:8])} … exited with {ended.returncode}: {said}")
    return ended.stdout.decode("utf-8", "replace")


async def equipped(*packages: str) -> str:
    """Tag of the base image with Debian packages that installing needs; built once, outside what is measured."""
    context = cache_folder() / "benchmarks" / f"image-{'-'.join(packages)}"
    context.mkdir(parents=True, exist_ok=True)
    install = f"apt-get update -qq && apt-get install -qqy --no-install-recommends {' '.join(packages)}"
    (context / "Dockerfile.fetch").write_text(f"ARG BASE\nFROM $BASE\nRUN {install}\n")
    (context / "Dockerfile").write_text("ARG FETCHED\nFROM $FETCHED\n")
    return await ImageCache(folder=cache_folder() / "images").ensure(context)


def forget(*tags: str) -> None:
    """Remove images that only a figure needed."""
    subprocess.run([*engine.cli(), "rmi", "--force", *tags], capture_output=True)


@contextmanager
def scratch(name: str) -> Generator[Path]:
    """A folder beside the cache, on its disk."""
    folder = cache_folder() / "benchmarks" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
