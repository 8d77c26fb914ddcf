"""Backends under test, and what the host can see of them."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import uuid
from pathlib import Path
from typing import Self

import pytest

from lego_harness.sandbox import ownership
from lego_harness.sandbox.base import SandboxBackend
from lego_harness.sandbox.choose import choose_backend
from tests.support.processes import Watch

BACKENDS = ["bubblewrap", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.slow])]


def backend_called(name: str) -> SandboxBackend:
    return choose_backend(name)


def unique_label() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


def guards_of(pid: int) -> list[int]:
    """The processes that would clean up behind a Docker worker that is killed."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if b"\0lego-guard\0" in (process / "cmdline").read_bytes():
                owner = (process / "environ").read_text().partition("LEGO_OWNED=")[2].partition("\0")[0]
                found += [int(process.name)] if owner.split("/")[2:3] == [str(pid)] else []
    return found


class Maker:
    """Somebody who made a sandbox and can be ended at will. What he made is taken by whoever reaps once he has
    ended, any worker that starts on this machine included, so a test ends him just before it looks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(["sleep", "infinity"])
        boot, namespace, _, _ = ownership.me().split("/")
        stat = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        self.signature = f"{boot}/{namespace}/{self._process.pid}/{stat[19]}"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Sleeper:
    """A command that would run for ever, and a look for its processes on the host."""

    def __init__(self) -> None:
        self.argv = ["sleep", f"{uuid.uuid4().int % 10**9 + 10**9}"]
        self.command = " ".join(self.argv)

    def running(self) -> list[int]:
        """Host process ids, inside any sandbox."""
        return [
            int(entry.parent.name) for entry in Path("/proc").glob("[0-9]*/cmdline") if self._is_in(entry)
        ]

    def survivors(self) -> list[str]:
        """Those that nobody has killed: one that was may have to wait for a core to die on."""
        return Watch(self.running()).survivors(within_s=10)

    async def started(self, count: int = 1) -> None:
        """Until `count` of them run."""
        async with asyncio.timeout(60):
            while len(self.running()) < count:  # noqa: ASYNC110 another process has no event for us
                await asyncio.sleep(0.005)

    def _is_in(self, cmdline: Path) -> bool:
        try:
            return cmdline.read_bytes().rstrip(b"\0").split(b"\0") == [word.encode() for word in self.argv]
        except OSError:
            return False
