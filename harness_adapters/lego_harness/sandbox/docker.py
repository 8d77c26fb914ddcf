"""Sandboxes by a Docker engine: the production backend.

A sandbox is one container without network and without capabilities, its root read-only, its workspace a
sized tmpfs. Nothing inside is root: process 1 runs as `nobody`, the agent as uid 1000, so that the
agent cannot end its own container. Invariant: a container carries its run and its owner as labels
from the moment it exists, and leaving the context removes it, cancelled or not.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from lego_harness.errors import SetupError
from lego_harness.sandbox import docker_engine as engine
from lego_harness.sandbox.archive import pack, unpack
from lego_harness.sandbox.base import MAX_EXPORT_BYTES, WORKSPACE, ExecResult, Limits, Phase, SandboxSpec
from lego_harness.sandbox.processes import Ended, run_bounded

_TAR_OVERHEAD = 64 * 2**20
_COPY_S = 120.0
_KILL_S = 10.0
_KILL_PIDS = 64
"""What an exec takes for a moment, its runtime's threads included."""
_PACK = "chmod -R u+rwX . && tar --create --sparse --hard-dereference --one-file-system --file=- ."


class DockerSandbox:
    """One running container."""

    def __init__(self, name: str, limits: Limits) -> None:
        self._name = name
        self._limits = limits

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        cwd: str = WORKSPACE,
        stdin: bytes | None = None,
    ) -> ExecResult:
        """As the protocol says; a timeout ends everything the agent runs in this container."""
        limit = self._limits.output_bytes
        ended = await self._run(argv, timeout_s=timeout_s, output_bytes=limit, env=env, cwd=cwd, stdin=stdin)
        return ended.as_exec_result()

    def exec_prefix(self, env: Mapping[str, str] | None = None, cwd: str = WORKSPACE) -> list[str]:
        settings = [word for name, value in (env or {}).items() for word in ("--env", f"{name}={value}")]
        return [
            *engine.cli(),
            "exec",
            "--interactive",
            "--workdir",
            cwd,
            "--user",
            engine.AGENT,
            *settings,
            self._name,
        ]

    async def export(self) -> dict[str, bytes]:
        await self._kill_all()
        bound = MAX_EXPORT_BYTES + _TAR_OVERHEAD
        ended = await self._run(["sh", "-c", _PACK], timeout_s=_COPY_S, output_bytes=bound)
        return await asyncio.to_thread(unpack, ended.stdout)

    async def fill(self, files: Mapping[str, bytes]) -> None:
        """Write files under /workspace; raises SetupError."""
        if not files:
            return
        ended = await self._run(
            ["tar", "--extract", "--file=-"], timeout_s=_COPY_S, output_bytes=4096, stdin=pack(files)
        )
        if ended.exit_code != 0:
            said = ended.stderr.decode("utf-8", "replace").strip()
            raise SetupError(f"the workspace of {self._name} cannot be filled: {said or 'no reason given'}")

    async def _run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        output_bytes: int,
        env: Mapping[str, str] | None = None,
        cwd: str = WORKSPACE,
        stdin: bytes | None = None,
    ) -> Ended:
        ended = await run_bounded(
            [*self.exec_prefix(env, cwd), *argv],
            timeout_s=timeout_s,
            output_bytes=output_bytes,
            stdin=stdin,
            before_kill=self._kill_all,
        )
        if (
            ended.exit_code != 0
            and not ended.timed_out
            and not await asyncio.to_thread(engine.is_running, self._name)
        ):
            raise SetupError(f"the container {self._name} is gone: {engine.last_line(ended.stderr)}")
        return ended

    async def _kill_all(self) -> None:
        """End every process of the agent's user; the client's end alone would leave them running."""
        if await self._kill_from_inside():
            return
        # A fork bomb leaves no room for the process that is to end it.
        await self._allow_pids(self._limits.pids + _KILL_PIDS)
        if not await self._kill_from_inside():
            await asyncio.to_thread(engine.kill, self._name)
        await self._allow_pids(self._limits.pids)

    async def _kill_from_inside(self) -> bool:
        """False when the killing process could not be started or did not end."""
        command = [*self.exec_prefix(cwd="/"), "sh", "-c", "kill -9 -1; exit 0"]
        ended = await run_bounded(command, timeout_s=_KILL_S, output_bytes=1024)
        return ended.exit_code == 0 and not ended.timed_out

    async def _allow_pids(self, pids: int) -> None:
        command = [*engine.cli(), "update", "--pids-limit", str(pids), self._name]
        await run_bounded(command, timeout_s=_KILL_S, output_bytes=1024)


class DockerBackend:
    """Makes sandboxes in the engine that the environment names."""

    name = "docker"
    cannot_hold: tuple[str, ...] = ()

    async def check(self) -> None:
        fault = await asyncio.to_thread(engine.fault)
        if fault is not None:
            raise SetupError(f"Docker sandboxes do not work here: {fault}")

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[DockerSandbox]:
        return _open(spec)

    async def reap(self, label: str) -> int:
        return await asyncio.to_thread(engine.reap, label)


@asynccontextmanager
async def _open(spec: SandboxSpec) -> AsyncGenerator[DockerSandbox]:
    if spec.proxy_socket is not None and spec.phase is not Phase.AGENT:
        raise SetupError(f"a proxy socket for phase {spec.phase}: only the agent phase may reach the proxy")
    name = f"lego-{spec.label}-{secrets.token_hex(6)}"
    starting = asyncio.ensure_future(asyncio.to_thread(engine.start, name, spec))
    try:
        await asyncio.shield(starting)
        sandbox = DockerSandbox(name, spec.limits)
        await sandbox.fill(spec.files)
        yield sandbox
    finally:
        await asyncio.shield(_close(name, starting))


async def _close(name: str, starting: asyncio.Future[None]) -> None:
    """Remove the container, also one whose start was still under way when its user was cancelled."""
    await asyncio.wait([starting])
    await asyncio.to_thread(engine.remove, name)
