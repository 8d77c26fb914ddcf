"""The interface between a rollout and an unmodified harness program.

An `Adapter` knows how one harness is installed, started, pointed at the proxy and stopped; it
holds no policy and reads no transcript. Start-up that can be shared (imports, servers) is paid in
`start` and lasts until `close`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lego_harness.sandbox.base import Limits, Mount, Sandbox
from lego_harness.types import Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Where one rollout finds its proxy; the secret in the path is its identity."""

    host_url: str
    """`http://127.0.0.1:PORT/rollout/SECRET`, for harness processes outside the sandbox."""
    socket: Path
    """Unix socket of the same server, bound into sandboxes of the agent phase."""
    path: str
    """`/rollout/SECRET`, to be appended to the address that reaches `socket` inside."""
    model: str
    """Model name that the harness is given; the proxy does not read it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HarnessExit:
    """How the harness process ended. Its output is untrusted and bounded."""

    exit_code: int
    output: str
    ordinary: frozenset[int] = frozenset({0})
    """Exit codes that mean nothing went wrong with the program itself."""
    timed_out: bool = False
    killed_inside: bool = False
    """A signal ended it inside the agent's sandbox: whatever sent it, the agent is answerable. Not so where the machine
    may have sent it, for want of memory."""

    @property
    def is_odd(self) -> bool:
        """Whether the program itself went wrong, as it seems."""
        return self.exit_code not in self.ordinary and not (self.timed_out or self.killed_inside)


class Adapter(Protocol):
    """One harness."""

    name: str
    version: str
    limits: Limits
    """Of the sandbox it runs its commands in."""

    async def check(self) -> None:
        """Raise SetupError saying what to install when the pinned harness is not here."""
        ...

    def mounts(self) -> tuple[Mount, ...]:
        """Read-only files that the agent's sandbox needs; empty for harnesses that run outside."""
        ...

    async def start(self) -> None:
        """Pay shared start-up once per worker."""
        ...

    async def run(self, task: Task, sandbox: Sandbox, endpoint: Endpoint, *, timeout_s: float) -> HarnessExit:
        """Run the harness on the task to its end. Cancelling kills its whole process tree."""
        ...

    async def close(self) -> None:
        """Stop whatever `start` started."""
        ...
