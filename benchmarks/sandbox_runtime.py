"""A harness that is mounted read-only, against one that is installed in the container, until it says its version.

Both begin with no container and end with the program's first answer. The image of the installing side has npm in it
already, which a task's image would not; its packages come from the registry, without scripts, pinned as ours are.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.containers import LABEL, Compared, Pair, call, equipped, run, seconds, trusting
from lego_harness.adapters.inside import installed_inside
from lego_harness.adapters.install import CLAUDE_CODE, CODEX, OPENCODE, Harness, install
from lego_harness.sandbox.base import Mount, Phase, SandboxSpec
from lego_harness.sandbox.docker import DockerBackend

BINARIES = (
    (CLAUDE_CODE, "node_modules/@anthropic-ai/claude-code-linux-*/claude"),
    (CODEX, "node_modules/@openai/codex-linux-*/vendor/*/bin/codex"),
    (OPENCODE, "node_modules/opencode-linux-*/bin/opencode"),
)
_PLACE = "/opt/harness"


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """One harness, mounted and installed."""

    name: str
    mount: Mount
    answer: Sequence[str]
    """What is run of the mounted one."""
    script: str
    """Installs it in a container and runs the same."""


def measure(runtimes: Sequence[Runtime] | None = None, image: str | None = None) -> Compared:
    """Seconds to the first answer of each; needs the npm registry."""
    wanted = [_of_npm(*one) for one in BINARIES] if runtimes is None else runtimes
    image = image or asyncio.run(equipped("npm"))
    pairs = [
        Pair(what=one.name, with_s=asyncio.run(_mounted_s(one)), without_s=_installed_s(one, image))
        for one in wanted
    ]
    return Compared(name="mounted harness", pairs=pairs, paper=15.4)


async def _mounted_s(runtime: Runtime) -> float:
    spec = SandboxSpec(phase=Phase.AGENT, files={}, label=LABEL, mounts=(runtime.mount,))
    started = time.perf_counter()
    async with DockerBackend().open(spec) as sandbox:
        done = await sandbox.exec(runtime.answer, timeout_s=300)
        took = time.perf_counter() - started
    if done.exit_code != 0:
        raise RuntimeError(f"{runtime.name} does not answer: {done.stderr[-300:]}")
    return took


def _installed_s(runtime: Runtime, image: str) -> float:
    command = ["sh", "-ec", runtime.script]
    return seconds(lambda: call(run("--rm", *trusting(), image=image, command=command, network="host")))


def _of_npm(harness: Harness, binary: str) -> Runtime:
    install(harness)
    (found,) = harness.folder.glob(binary)
    packages = json.loads((harness.folder / "package.json").read_text())["dependencies"]
    pinned = " ".join(f"{name}@{version}" for name, version in packages.items())
    inside = found.relative_to(harness.folder)
    flags = "--silent --no-audit --no-fund --save-exact --ignore-scripts"
    return Runtime(
        name=harness.name,
        mount=Mount(source=harness.folder, target=installed_inside(harness.name)),
        answer=[f"{installed_inside(harness.name)}/{inside}", "--version"],
        script=f"npm install {flags} --prefix {_PLACE} {pinned}\n{_PLACE}/{inside} --version",
    )
