"""Harnesses that are one native binary: the installation is mounted read-only, and they run inside the sandbox.

Such a harness is a table, `Inside`, and needs no code. Its only way out is the proxy's unix socket,
reached through a loopback forwarder started in the same exec; each rollout has a home of its own and an
environment with exactly what the table says. The instruction comes on stdin. Reads no transcript, and
of the output only its end, to show to people.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lego_harness.adapters.base import Endpoint, HarnessExit
from lego_harness.adapters.install import Harness, reported_version
from lego_harness.errors import SetupError
from lego_harness.sandbox.base import PROXY_SOCKET, PYTHON, ExecResult, Limits, Mount, Sandbox
from lego_harness.types import Task

FORWARDER = Mount(
    source=Path(__file__).parent / "programs" / "through_socket.py", target="/opt/lego/through_socket.py"
)
HOME = "/home/agent"
"""Every sandbox has this folder, and it is empty at first."""
_ANY_PYTHON = f'python=$(command -v python3) || python={PYTHON}/start; exec "$python" "$@"'
"""The image's own Python, or the mounted one if the image has none."""
_OUTPUT_CHARACTERS = 20_000
_KILLED = 128 + 9


@dataclass(frozen=True, kw_only=True, slots=True)
class Inside:
    """One harness. In `argv`, `env` and `files`, `{url}` and `{model}` stand for the rollout's own."""

    harness: Harness
    binary: str
    """Where the binary is in the installation; a pattern that matches one file."""
    argv: tuple[str, ...]
    """What follows the binary."""
    env: Mapping[str, str]
    """All of the environment but PATH, HOME and what every sandbox sets."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Written before the start: path below the home → text."""
    ordinary: frozenset[int] = frozenset({0})
    """Exit codes that mean nothing went wrong with the program itself."""
    agent_ended: tuple[str, ...] = ()
    """Printed when the agent, not the program, came to its end, whatever the exit code."""
    memory_mb: int = 1024
    """Limits of the sandbox, which holds the program besides the agent's commands."""


class InsideAdapter:
    """Runs the harness that a table describes."""

    def __init__(self, table: Inside) -> None:
        self._table = table
        self.name = table.harness.name
        self.version = table.harness.version
        self.limits = Limits(memory_mb=table.memory_mb)

    async def check(self) -> None:
        table = self._table
        env = {"PATH": "/usr/bin:/bin", "TERM": "dumb", **table.env}
        await asyncio.to_thread(reported_version, [str(_binary(table)), "--version"], table.harness, env)

    def mounts(self) -> tuple[Mount, ...]:
        self._table.harness.require()
        return (FORWARDER, Mount(source=self._table.harness.folder, target=installed_inside(self.name)))

    async def start(self) -> None:
        """Nothing is shared."""

    async def run(self, task: Task, sandbox: Sandbox, endpoint: Endpoint, *, timeout_s: float) -> HarnessExit:
        table, values = self._table, values_inside(endpoint)
        binary = _binary(table).relative_to(table.harness.folder)
        result = await sandbox.exec(
            forwarded(
                (f"{installed_inside(self.name)}/{binary}", *(filled(word, values) for word in table.argv)),
                {name: filled(text, values) for name, text in table.files.items()},
            ),
            timeout_s=timeout_s,
            env={name: filled(value, values) for name, value in table.env.items()},
            stdin=task.instruction.encode(),
        )
        ordinary = table.ordinary
        if any(said in result.stdout for said in table.agent_ended):
            ordinary |= {result.exit_code}
        return exit_inside(result, ordinary)

    async def close(self) -> None:
        """Nothing to stop: it ended with its sandbox."""


def installed_inside(name: str) -> str:
    """Where the harness's installation is in the sandbox."""
    return f"/opt/lego/{name}"


def values_inside(endpoint: Endpoint) -> dict[str, str]:
    """Placeholder → value; the forwarder fills in the port, which only it knows."""
    return {"{url}": f"http://127.0.0.1:{{port}}{endpoint.path}", "{model}": endpoint.model}


def filled(text: str, values: Mapping[str, str]) -> str:
    """`text` with every placeholder replaced by its value."""
    for placeholder, value in values.items():
        text = text.replace(placeholder, value)
    return text


def forwarded(argv: Sequence[str], files: Mapping[str, str] | None = None) -> list[str]:
    """The command that runs `argv` in the sandbox, with a home that holds `files` and the proxy in reach."""
    return [
        *("sh", "-c", _ANY_PYTHON, "sh", "-I", "-S", "-B", FORWARDER.target, PROXY_SOCKET, HOME),
        *(f"{name}={text}" for name, text in (files or {}).items()),
        *("--", *argv),
    ]


def exit_inside(result: ExecResult, ordinary: frozenset[int]) -> HarnessExit:
    """How a harness that ran inside the sandbox ended."""
    return HarnessExit(
        exit_code=result.exit_code,
        output=last_words(result),
        ordinary=ordinary,
        timed_out=result.timed_out,
        killed_inside=_was_killed(result),
    )


def last_words(result: ExecResult) -> str:
    """The end of what a harness wrote."""
    return (result.stdout + result.stderr)[-_OUTPUT_CHARACTERS:]


def _was_killed(result: ExecResult) -> bool:
    """A shell's code for a signal; one that came from outside would have ended the exec itself, unless the kernel sent
    it for the machine's sake."""
    if result.timed_out or (result.exit_code == _KILLED and result.machine_ran_out_of_memory):
        return False
    return 128 < result.exit_code < 128 + 65


def _binary(table: Inside) -> Path:
    table.harness.require()
    found = sorted(table.harness.folder.glob(table.binary))
    if len(found) != 1:
        raise SetupError(
            f"{table.harness.name} {table.harness.version}: found {len(found)} native binaries in "
            f"{table.harness.folder}, expected 1; remove that folder and {table.harness.how_to_install}"
        )
    return found[0]
