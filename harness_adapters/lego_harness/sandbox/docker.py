"""Sandboxes by a Docker engine: the production backend.

A sandbox is one container without network and without capabilities, its root read-only, its workspace a
sized tmpfs. Process 1 runs as `nobody`, the agent as uid 1000, or as a root without capabilities where the
image needs one: neither can end its own container, so a container that ends was ended by somebody else,
unless the kernel ended it for want of memory or we did because the agent's processes could not be.

Invariants: a container carries its run and its owner as labels from the moment it exists; leaving the context
removes it, cancelled or not, and `docker_guard` does where this process is killed; the agent phase begins only
after its network was proven closed; a sandbox over whose life the engine was interrupted raises SetupError
before anything of it can be graded.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import replace
from pathlib import Path

from lego_harness.cache import cache_folder
from lego_harness.errors import SandboxEnded, SetupError
from lego_harness.sandbox import cgroup, docker_filling, docker_reaper, egress
from lego_harness.sandbox import docker_container as container
from lego_harness.sandbox import docker_engine as engine
from lego_harness.sandbox.archive import pack, unpack
from lego_harness.sandbox.base import (
    CACHES,
    MAX_DEPTH,
    MAX_EXPORT_BYTES,
    WORKSPACE,
    ExecResult,
    Phase,
    SandboxSpec,
    Standing,
)
from lego_harness.sandbox.docker_guard import Guard
from lego_harness.sandbox.docker_spares import Spare, Spares
from lego_harness.sandbox.docker_watch import EngineWatch
from lego_harness.sandbox.processes import Ended, run_bounded
from lego_harness.sandbox.task_images import TaskImages

_AT_ONCE = min(32, (os.cpu_count() or 1) + 4)
"""Set-ups under way, as many as asyncio has threads: the last steps of one would wait for the starts of all others."""
_AWAY_S, _LOOK_AGAIN_S = 120.0, 0.5
"""For an engine that was killed, or whose containerd was, and is being started again."""
_TAR_OVERHEAD = 64 * 2**20
_COPY_S = 120.0
_PACK_HOME = "tar --create --sparse --one-file-system --file=- -C / workspace home/agent"
_MOVE_BYTES = 2**30
_KILL_S = 60.0
"""An engine that is only slow must not cost an agent its container."""
_KILL_PIDS = 64
"""What an exec takes for a moment, its runtime's threads included."""
_KILL = "kill -9 -1"
_MAX_KIB = MAX_EXPORT_BYTES // 1024
_IS_CACHE = " -o ".join(f"-name {name}" for name in CACHES)
_PACKED = b"packed\n"
_PACK = f"""chmod -R u+rwX . 2>/dev/null
pack() {{ tar --create --sparse --hard-dereference --one-file-system --file=- "$@" 2>/dev/null; }}
{{
  if command -v find >/dev/null; then
    find . -xdev -type f -size +{_MAX_KIB}k -exec truncate -s {_MAX_KIB + 1}K {{}} + 2>/dev/null
    find . -xdev -maxdepth {MAX_DEPTH} -type d \\( {_IS_CACHE} \\) -prune -o -type f -print0 2>/dev/null |
      pack --null --no-recursion --files-from=-
  else
    pack .
  fi
  echo {_PACKED.decode().strip()} >&2
}} | if command -v head >/dev/null; then head -c {MAX_EXPORT_BYTES + _TAR_OVERHEAD}; else cat; fi"""
"""Files alone, no longer than an export can be, nor slower: an agent that leaves a tree without an end, or a file of
a terabyte where holes are not told, would make a failure of ours out of its own. It says when it had room to the end."""


class DockerSandbox:
    """One running container."""

    def __init__(
        self,
        name: str,
        spec: SandboxSpec,
        state: engine.State,
        *,
        runtime: str | None,
        watch: EngineWatch,
        count: int,
        started: list[asyncio.Future[engine.State]],
    ) -> None:
        self._name = name
        self._spec = spec
        self._state = state
        self._runtime = runtime
        self._started = started
        """Starts of its containers: there is a second one once it moved."""
        self._limits = spec.limits
        self._user = container.agent_user(spec)
        self._watch = watch
        self._count = count
        """Interruptions of the engine before this sandbox was opened."""
        self._oom = cgroup.oom_counter(state.pid, state.id)
        self._is_ended_by_us = False

    @property
    def image(self) -> str:
        return self._state.image

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
        limit, kills = self._limits.output_bytes, cgroup.Kills(self._oom)
        ended = await self._run(argv, timeout_s=timeout_s, output_bytes=limit, env=env, cwd=cwd, stdin=stdin)
        return ended.as_exec_result(
            ran_out_of_memory=kills.num_own > 0, machine_ran_out_of_memory=kills.num_others > 0
        )

    def exec_prefix(self, env: Mapping[str, str] | None = None, cwd: str = WORKSPACE) -> list[str]:
        settings = [word for name, value in (env or {}).items() for word in ("--env", f"{name}={value}")]
        return [
            *engine.cli(),
            "exec",
            "--interactive",
            "--workdir",
            cwd,
            "--user",
            self._user,
            *settings,
            self._name,
        ]

    async def enter(self, phase: Phase) -> None:
        """As the protocol says.

        A container that had a network is left for one that never had: taken off its bridge it would keep the
        engine's resolver, which may answer through the engine's machine.
        """
        await self._kill_all()
        if self._spec.network:
            await self._move(replace(self._spec, phase=phase, network=False))
        await asyncio.to_thread(egress.prove_closed, self._name, self._state, self._spec.label)

    async def _move(self, spec: SandboxSpec) -> None:
        """Go on in a new container with the same files, the agent's home among them."""
        packed = await self._run(["sh", "-c", _PACK_HOME], timeout_s=_COPY_S, output_bytes=_MOVE_BYTES)
        if packed.exit_code != 0 or packed.timed_out or len(packed.stdout) == _MOVE_BYTES:
            raise SetupError(
                f"what the set-up left in {self._name} cannot be packed: {engine.last_line(packed.stderr)}"
            )
        moving = asyncio.ensure_future(asyncio.to_thread(_start, _successor(self._name), spec, self._runtime))
        self._started.append(moving)
        self._state = await asyncio.shield(moving)
        await asyncio.to_thread(engine.remove, self._name)
        self._name, self._spec = _successor(self._name), spec
        self._oom = cgroup.oom_counter(self._state.pid, self._state.id)
        await self._unpack(packed.stdout, folder="/")

    async def export(self) -> dict[str, bytes]:
        packed = await self._kill_and_pack()
        await self._require_whole_engine()
        return await asyncio.to_thread(unpack, packed)

    async def _kill_and_pack(self) -> bytes:
        """A tar of the workspace, which nobody changes any more; in one command where there is room for it."""
        bound = MAX_EXPORT_BYTES + _TAR_OVERHEAD
        both = [*self.exec_prefix(), "sh", "-c", f"{_KILL}; {_PACK}"]
        ended = await run_bounded(both, timeout_s=_COPY_S, output_bytes=bound)
        if ended.exit_code != 0 or not ended.stderr.endswith(_PACKED):
            await self._kill_all()
            ended = await self._run(["sh", "-c", _PACK], timeout_s=_COPY_S, output_bytes=bound)
        if ended.timed_out:
            await self._require_whole_engine()
            raise SetupError(f"the workspace of {self._name} was not packed within {_COPY_S:g} s")
        return ended.stdout

    async def fill(self, files: Mapping[str, bytes]) -> None:
        """Write files under /workspace, where nothing has been executed yet; raises SetupError."""
        if not files:
            return
        try:
            if await asyncio.to_thread(docker_filling.is_filled, self._state, files):
                return
        except OSError as error:
            raise SetupError(f"the workspace of {self._name} cannot be filled: {error}") from error
        await self._unpack(pack(files), folder=WORKSPACE)

    async def _unpack(self, stream: bytes, *, folder: str) -> None:
        unpack_it = ["tar", "--extract", "--no-same-owner", "--no-overwrite-dir", "--file=-"]
        ended = await self._run(unpack_it, timeout_s=_COPY_S, output_bytes=4096, cwd=folder, stdin=stream)
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
            before_kill=self._end_processes,
        )
        if ended.timed_out:
            await self._require_whole_engine()
        elif ended.exit_code != 0:
            await self._require_alive(ended)
        return ended

    async def _require_alive(self, ended: Ended) -> None:
        """Raise where a command failed because of its sandbox or the engine, not by itself."""
        await self._require_whole_engine()
        state = await asyncio.to_thread(engine.state, self._name)
        if state and state.is_running and (ended.exit_code != 137 or await self._executes()):
            return
        await self._require_whole_engine()
        said = engine.last_line(ended.stderr)
        if self._is_ended_by_us or (state and state.is_out_of_memory):
            raise SandboxEnded(f"the container {self._name} was brought down from inside: {said}")
        raise SetupError(f"the container {self._name} is gone: {said}")

    async def _require_whole_engine(self) -> None:
        if await asyncio.to_thread(self._watch.count) > self._count:
            raise SetupError(f"the Docker engine was interrupted while {self._name} was open")

    async def _executes(self) -> bool:
        ended = await run_bounded([*self.exec_prefix(cwd="/"), "true"], timeout_s=_KILL_S, output_bytes=1024)
        return ended.exit_code == 0

    async def _end_processes(self) -> None:
        with contextlib.suppress(SetupError):  # whoever waited for the command finds out for himself
            await self._kill_all()

    async def _kill_all(self) -> None:
        """End every process of the agent's user; the client's end alone would leave them running."""
        if await self._kill_from_inside():
            return
        await self._require_whole_engine()
        # A fork bomb leaves no room for the process that is to end it.
        await self._allow_pids(self._limits.pids + _KILL_PIDS)
        if not await self._kill_from_inside():
            await self._require_whole_engine()
            state = await asyncio.to_thread(engine.state, self._name)
            self._is_ended_by_us = state is not None and state.is_running
            await asyncio.to_thread(engine.kill, self._name)
        await self._allow_pids(self._limits.pids)

    async def _kill_from_inside(self) -> bool:
        """False when the killing process could not be started or did not end."""
        command = [*self.exec_prefix(cwd="/"), "sh", "-c", f"{_KILL}; exit 0"]
        ended = await run_bounded(command, timeout_s=_KILL_S, output_bytes=1024)
        return ended.exit_code == 0 and not ended.timed_out

    async def _allow_pids(self, pids: int) -> None:
        command = [*engine.cli(), "update", "--pids-limit", str(pids), self._name]
        await run_bounded(command, timeout_s=_KILL_S, output_bytes=1024)


class DockerBackend:
    """Makes sandboxes in the engine that the environment names."""

    cannot_hold: tuple[str, ...] = ()

    def __init__(self, *, runtime: str | None = None, warm: int = 0, cache: Path | None = None) -> None:
        self.name = "gvisor" if runtime == "runsc" else "docker"
        self._runtime = runtime
        """OCI runtime as the engine calls it; None for the engine's own choice."""
        self._images = TaskImages(cache or cache_folder())
        self._watch = EngineWatch(engine.host())
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._guard = Guard()
        self._spares = Spares(warm, self._spare)
        self._around_spares = ExitStack()
        """Guard and watch, for as long as there may be spares."""
        self._has_spares = False

    async def check(self) -> None:
        fault = await asyncio.to_thread(engine.fault, self._runtime)
        if fault is not None:
            raise SetupError(f"Docker sandboxes do not work here: {fault}")

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[DockerSandbox]:
        return self._open(spec)

    async def standing(self, label: str | None = None) -> list[Standing]:
        return await asyncio.to_thread(docker_reaper.standing, label)

    async def reap(self, label: str | None = None) -> int:
        return await asyncio.to_thread(docker_reaper.reap, label)

    @asynccontextmanager
    async def _open(self, spec: SandboxSpec) -> AsyncGenerator[DockerSandbox]:
        if spec.proxy_socket is not None and spec.phase is not Phase.AGENT and not spec.network:
            raise SetupError(
                f"a proxy socket for phase {spec.phase}: only the agent phase may reach the proxy"
            )
        if spec.network and spec.phase is not Phase.SETUP:
            raise SetupError(f"a network for phase {spec.phase}: only set-up may have one")
        spec = await self._images.resolved(spec)
        with self._held():
            async with AsyncExitStack() as around:
                async with self._turns:
                    sandbox = await self._set_up(spec, around)
                yield sandbox

    async def _set_up(self, spec: SandboxSpec, around: AsyncExitStack) -> DockerSandbox:
        """A sandbox, filled and proven; `around` removes it, also one that was not finished."""
        count = await self._count_once_there()
        name, starting = await self._begun(spec, count)
        started = [starting]
        around.push_async_callback(self._close, name, spec, started, count)
        state = await asyncio.shield(starting)
        sandbox = DockerSandbox(
            name, spec, state, runtime=self._runtime, watch=self._watch, count=count, started=started
        )
        await _prepare(sandbox, name, spec, state)
        await self._spares.refill(spec)
        return sandbox

    async def _count_once_there(self) -> int:
        """Interruptions of the engine so far. An engine that is away is waited for: without it every set-up fails at
        once, and a whole step's rollouts would be gone before it is back."""
        deadline = time.monotonic() + _AWAY_S
        while (count := await asyncio.to_thread(self._watch.count)) and self._watch.is_away:
            if time.monotonic() > deadline:
                raise SetupError(f"the Docker engine at {engine.host()} is away for more than {_AWAY_S:g} s")
            await asyncio.sleep(_LOOK_AGAIN_S)
        return count

    async def _begun(self, spec: SandboxSpec, count: int) -> tuple[str, asyncio.Future[engine.State]]:
        """A container's name and its start: under way, or over long ago."""
        if spare := await self._spares.take(spec, count):
            over: asyncio.Future[engine.State] = asyncio.get_running_loop().create_future()
            over.set_result(spare.state)
            return spare.name, over
        name = _new_name(spec)
        return name, asyncio.ensure_future(asyncio.to_thread(_start, name, spec, self._runtime))

    async def _spare(self, spec: SandboxSpec) -> Spare:
        if not self._has_spares:
            self._around_spares.enter_context(self._held())
            self._has_spares = True
        name, count = _new_name(spec), await asyncio.to_thread(self._watch.count)
        try:
            state = await asyncio.to_thread(_start, name, spec, self._runtime)
        except SetupError:
            await asyncio.to_thread(engine.remove, name, to_the_bone=True)
            raise
        return Spare(name=name, state=state, count=count)

    @contextmanager
    def _held(self) -> Generator[None]:
        """Nothing is left behind, nothing goes unnoticed."""
        owned = f"{container.OWNER_LABEL}={container.labels('')[container.OWNER_LABEL]}"
        with self._guard.held(engine.cli(), owned), self._watch.held():
            yield

    async def close(self) -> None:
        await self._spares.close()
        self._around_spares.close()
        self._has_spares = False

    async def _close(
        self, name: str, spec: SandboxSpec, started: Sequence[asyncio.Future[engine.State]], count: int
    ) -> None:
        """Remove the container, also one whose start was still under way when its user was cancelled."""
        await asyncio.shield(self._removed(name, spec, started, count))

    async def _removed(
        self, name: str, spec: SandboxSpec, started: Sequence[asyncio.Future[engine.State]], count: int
    ) -> None:
        await asyncio.wait(started)
        was_interrupted = await asyncio.to_thread(self._watch.count) > count
        for one in (name, _successor(name)) if spec.network else (name,):
            await asyncio.to_thread(engine.remove, one, to_the_bone=was_interrupted)
        if spec.network:
            await asyncio.to_thread(engine.disconnect, name)


def _new_name(spec: SandboxSpec) -> str:
    return f"lego-{spec.label}-{secrets.token_hex(6)}"


def _successor(name: str) -> str:
    """The container that a sandbox moves to when its network is taken away."""
    return f"{name}-closed"


def _start(name: str, spec: SandboxSpec, runtime: str | None) -> engine.State:
    network = engine.connect(name, spec) if spec.network else "none"
    return engine.start(name, spec, runtime=runtime, network=network)


async def _prepare(sandbox: DockerSandbox, name: str, spec: SandboxSpec, state: engine.State) -> None:
    """Fill the workspace and, before an agent comes, prove that the network is closed."""
    if spec.phase is Phase.AGENT:
        proof = asyncio.to_thread(egress.prove_closed, name, state, spec.label)
        await asyncio.gather(sandbox.fill(spec.files), proof)
    else:
        await sandbox.fill(spec.files)
