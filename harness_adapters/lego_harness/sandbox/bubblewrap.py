"""Sandboxes by bubblewrap: the embedded default where no Docker engine runs.

A sandbox is a host folder; each exec is one `bwrap` over it, in namespaces of its own, so whatever a
command leaves running dies with it. Invariant: nothing of a closed sandbox runs or lies anywhere.
Resource limits hold per process only, see `cannot_hold`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from lego_harness.errors import SetupError
from lego_harness.sandbox import runtime
from lego_harness.sandbox.base import WORKSPACE, ExecResult, Phase, SandboxSpec, Standing
from lego_harness.sandbox.bwrap_argv import (
    HOME,
    USER_ID,
    Confinement,
    confined,
    counts_processes_per_namespace,
    missing_programs,
)
from lego_harness.sandbox.cgroup import Kills
from lego_harness.sandbox.processes import run_bounded
from lego_harness.sandbox.seccomp import compile_filter
from lego_harness.sandbox.workspace import read_files, write_files

_LOOSE_LIMITS = (
    "memory is bounded per process, not for the sandbox as a whole",
    "disk is bounded per file, not in total; what is exported is bounded in total",
    "the share of the CPU is not bounded",
    "programs are the host's own, read-only, instead of an image's",
)
_PROBE = """import os, socket
try:
    socket.create_connection(("192.0.2.1", 9), timeout=1)
except OSError as error:
    print(os.path.exists("/workspace/probe"), type(error).__name__ != "TimeoutError", os.getuid() != 0)
"""


class BubblewrapSandbox:
    """One open sandbox over a host folder."""

    image = ""

    def __init__(self, confinement: Confinement) -> None:
        self._confinement = confinement
        self._closed = False

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        cwd: str = WORKSPACE,
        stdin: bytes | None = None,
    ) -> ExecResult:
        if self._closed:
            raise SetupError("exec in a bubblewrap sandbox that is closed")
        limit = self._confinement.limits.output_bytes
        command, kills = [*self.exec_prefix(env, cwd), *argv], Kills()
        ended = await run_bounded(command, timeout_s=timeout_s, output_bytes=limit, stdin=stdin)
        return ended.as_exec_result(machine_ran_out_of_memory=kills.num_others > 0)

    def exec_prefix(self, env: Mapping[str, str] | None = None, cwd: str = WORKSPACE) -> list[str]:
        return confined(self._confinement, env=env, cwd=cwd)

    async def enter(self, phase: Phase) -> None:
        await runtime.kill_inside(self._confinement.folder)

    async def export(self) -> dict[str, bytes]:
        await runtime.kill_inside(self._confinement.folder)
        return await asyncio.to_thread(read_files, self._confinement.folder / "workspace")

    def close(self) -> None:
        self._closed = True


class BubblewrapBackend:
    """Makes sandboxes out of the host's own file system and Linux namespaces."""

    name = "bubblewrap"

    def __init__(self) -> None:
        unbounded = (
            () if os.getuid() == 0 or counts_processes_per_namespace() else ("processes are not bounded",)
        )
        self.cannot_hold: tuple[str, ...] = (*_LOOSE_LIMITS, *unbounded)

    async def check(self) -> None:
        if missing := missing_programs():
            raise SetupError(
                f"bubblewrap sandboxes need {', '.join(missing)} on PATH; install the packages bubblewrap and "
                "util-linux (Debian: apt-get install bubblewrap util-linux) or use Docker"
            )
        spec = SandboxSpec(phase=Phase.SETUP, files={"probe": b""}, label="check")
        async with self.open(spec) as sandbox:
            result = await sandbox.exec(["python3", "-I", "-c", _PROBE], timeout_s=20)
        if result.stdout.split() != ["True", "True", "True"]:
            said = (result.stderr or result.stdout).strip().splitlines()
            raise SetupError(
                f"a bubblewrap sandbox does not work here: {said[-1] if said else f'exit {result.exit_code}'}; "
                "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1 and "
                "kernel.apparmor_restrict_unprivileged_userns=0), run as root, or use Docker"
            )

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[BubblewrapSandbox]:
        return _open(spec)

    async def standing(self, label: str | None = None) -> list[Standing]:
        return await asyncio.to_thread(runtime.standing, label)

    async def reap(self, label: str | None = None) -> int:
        return await runtime.reap(label)

    async def close(self) -> None:
        """Nothing is prepared."""


@asynccontextmanager
async def _open(spec: SandboxSpec) -> AsyncGenerator[BubblewrapSandbox]:
    if spec.proxy_socket is not None and spec.phase is not Phase.AGENT:
        raise SetupError(f"a proxy socket for phase {spec.phase}: only the agent phase may reach the proxy")
    if spec.network:
        raise SetupError("bubblewrap sandboxes have no network in any phase; use Docker")
    if needed := spec.image or spec.context:
        raise SetupError(
            f"the task needs an image of its own ({needed}), bubblewrap has only the host's programs: run it on "
            'Docker (scripts/docker_engine.sh up, sandbox.backend = "docker") or take it out of the pool'
        )
    folder = _prepared(spec)
    sandbox = None
    try:
        sandbox = BubblewrapSandbox(_filled(folder, spec))
        yield sandbox
    except OSError as error:
        if sandbox is not None:
            raise
        raise SetupError(f"the workspace {folder} cannot be written: {error}") from error
    finally:
        if sandbox is not None:
            sandbox.close()
        await asyncio.shield(runtime.remove_folder(folder))


def _prepared(spec: SandboxSpec) -> Path:
    try:
        return runtime.new_folder(spec.label)
    except OSError as error:
        raise SetupError(f"no sandbox folder can be made: {error}; free disk space or set TMPDIR") from error


def _filled(folder: Path, spec: SandboxSpec) -> Confinement:
    host_uid = 0x70000000 + secrets.randbelow(2**24) if os.getuid() == 0 else None
    write_files(folder / "workspace", spec.files, owner=host_uid)
    if host_uid is not None:
        for name in ("tmp", "home"):
            os.chown(folder / name, host_uid, host_uid)
    write_files(folder / "etc", _etc(USER_ID if host_uid is None else host_uid))
    (folder / "filter").write_bytes(compile_filter())
    if spec.proxy_socket is not None:
        spec.proxy_socket.chmod(0o666)  # its folder keeps others out; the uid inside must connect
    return Confinement(
        folder=folder,
        limits=spec.limits,
        mounts=spec.mounts,
        socket=spec.proxy_socket,
        host_uid=host_uid,
        seccomp=folder / "filter",
    )


def _etc(uid: int) -> dict[str, bytes]:
    return {
        "passwd": f"root:x:0:0:root:/:/bin/false\nagent:x:{uid}:{uid}:agent:{HOME}:/bin/bash\n".encode(),
        "group": f"root:x:0:\nagent:x:{uid}:\n".encode(),
        "hosts": b"127.0.0.1 localhost sandbox\n",
        "nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
    }
