"""The seam between a rollout and whatever isolates it.

A `Sandbox` is one disposable workspace with a phase; a `SandboxBackend` makes them. Invariants
every backend keeps: no network in any phase but what `Phase` grants; host paths enter only as
read-only mounts; leaving the context removes every process and file; nothing that code inside
prints or leaves behind is believed (law 6). Law a backend cannot hold: it says so in `cannot_hold`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

WORKSPACE = "/workspace"
PROXY_SOCKET = "/run/lego/proxy.sock"
PYTHON = "/opt/lego/python"
"""Where `runtimes.python_runtime` is mounted; `start` in it runs the interpreter."""
FETCH, BUILD = "Dockerfile.fetch", "Dockerfile"
"""Stages of a build context: with a network, then without one."""
MAX_EXPORT_FILES = 20_000
MAX_EXPORT_BYTES = 64 * 2**20
"""An export stops just past either bound; the grader refuses such a map, reward 0."""
CACHES = ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis")
"""Folders that are no part of an export, wherever they lie: what tools leave by the hundred megabyte is nobody's work,
and must not use up the bounds of what is."""
MAX_PATH_BYTES = 1000
MAX_DEPTH = 100
"""Of a path in an export. What lies deeper is left out as links are: an agent can make what no path reaches, and
no sandbox that is filled by paths could take it back."""


class Phase(StrEnum):
    """What a sandbox is for. `AGENT` may reach the proxy's socket; `SETUP` and `GRADE` nothing."""

    SETUP = "setup"
    AGENT = "agent"
    GRADE = "grade"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """A host path shown read-only inside the sandbox."""

    source: Path
    target: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Resource bounds of one sandbox."""

    memory_mb: int = 1024
    pids: int = 256
    cpus: float = 1.0
    disk_mb: int = 256
    output_bytes: int = 1_000_000
    """Kept of each stream of an exec; the rest is read and dropped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxSpec:
    """What to make."""

    phase: Phase
    files: Mapping[str, bytes]
    """Relative path → content; written under /workspace before the sandbox is handed out."""
    label: str
    """Run id; every container, process and folder carries it so that it can be reaped."""
    image: str | None = None
    """Image tag; a backend without images refuses it."""
    context: Path | None = None
    """Folder with the Dockerfile of an image to build where `image` is None; refused likewise."""
    proxy_socket: Path | None = None
    """Unix socket of the capture proxy, bound to PROXY_SOCKET (phase AGENT only)."""
    mounts: tuple[Mount, ...] = ()
    limits: Limits = Limits()
    root: bool = False
    """Run as root, without any capability: for images whose files serve root only."""
    network: bool = False
    """Phase SETUP may use the network, for tasks that have to fetch something; `enter` takes it away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecResult:
    """How a command inside the sandbox ended; its text is untrusted."""

    exit_code: int
    stdout: str
    stderr: str
    timed_out: bool
    duration_s: float
    ran_out_of_memory: bool = False
    """The kernel killed something of this sandbox, beyond its own bound of memory, meanwhile; no exit code tells."""
    machine_ran_out_of_memory: bool = False
    """It killed something for want of memory meanwhile, and not for the bound of this sandbox: that may have been one of
    its processes, and then nothing inside is to blame."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """A sandbox that is there, whoever made it."""

    backend: str
    label: str
    name: str
    is_orphan: bool
    """Its maker has ended: nobody will remove it but a reaper."""
    created: float
    """Seconds since the epoch."""


class Sandbox(Protocol):
    """One open sandbox."""

    @property
    def image(self) -> str:
        """Digest of the image that its root is; empty where that is the host's own."""
        ...

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        cwd: str = WORKSPACE,
        stdin: bytes | None = None,
    ) -> ExecResult:
        """Run a command to its end or to `timeout_s`, when its whole process tree is killed.

        Raises SandboxEnded when what runs inside brought the sandbox down, SetupError when it was lost otherwise.
        """
        ...

    def exec_prefix(self, env: Mapping[str, str] | None = None, cwd: str = WORKSPACE) -> list[str]:
        """The argv that runs a command in here from a host process, for harnesses outside it."""
        ...

    async def enter(self, phase: Phase) -> None:
        """Go on to a later phase: what runs is killed, the network taken away and proven closed.

        Raises SetupError without that proof; nothing may be executed then.
        """
        ...

    async def export(self) -> dict[str, bytes]:
        """Regular files under /workspace by relative path; links, devices, CACHES and paths beyond MAX_PATH_BYTES
        or MAX_DEPTH are left out.

        Whatever still runs inside is killed first. Stops just past MAX_EXPORT_FILES or _BYTES. Raises as
        `exec` does, also where commands of the agent may have failed for a reason that was not theirs.
        """
        ...


class SandboxBackend(Protocol):
    """Makes sandboxes of one kind."""

    name: str
    cannot_hold: tuple[str, ...]
    """Promises of this module that the backend cannot keep, in words; empty for `docker`."""

    async def check(self) -> None:
        """Prove by use that sandboxes can be made here; raises SetupError saying what to do."""
        ...

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[Sandbox]:
        """A sandbox for the length of the context; raises SetupError."""
        ...

    async def standing(self, label: str | None = None) -> list[Standing]:
        """The sandboxes of a run, or of all runs; raises SetupError."""
        ...

    async def reap(self, label: str | None = None) -> int:
        """Remove what processes that ended left behind, of a run or of all runs; how many there were."""
        ...

    async def close(self) -> None:
        """Remove what was prepared and nobody opened; raises SetupError."""
        ...
