"""Our end of a fork server: one child process that imports a harness once and forks it per rollout.

Owns the life of the child and the routing of its answers. Invariant: when `run` returns, raises or is
cancelled, the rollout's processes are dead; the server dies with this process, however that ends.
The wire format is described in `programs/fork_server.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from lego_harness.errors import HarnessError, SetupError
from lego_harness.text import one_line

_START_LIMIT_S = 600.0
"""Enough for an import of ten CPU-seconds on a machine where sixty others want the CPU."""
_KILL_LIMIT_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a forked program ended."""

    exit_code: int
    """Negative: the signal that ended it."""
    cpu_s: float
    """User and system time of the program and the commands it waited for."""


class ForkServer:
    """A running fork server; make one with `launch`."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        log: IO[bytes],
        folder: Path,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._log = log
        self._ended: dict[str, asyncio.Future[Ended]] = {}
        self._answers: asyncio.Task[None] | None = None
        self.folder = folder
        """Where the rollouts' folders go; the server removes it when it ends."""
        self.version = ""

    @classmethod
    async def launch(cls, python: Path, program: Path, env: Mapping[str, str]) -> ForkServer:
        """Start `program` in the harness's `python` and wait until it is ready; raises SetupError."""
        spawning = asyncio.ensure_future(cls._spawn(python, program, env))
        try:
            server = await asyncio.shield(spawning)
        except asyncio.CancelledError:
            await (await spawning).close()
            raise
        try:
            await server._greet()
        except BaseException:
            await server.close()
            raise
        return server

    @classmethod
    async def _spawn(cls, python: Path, program: Path, env: Mapping[str, str]) -> ForkServer:
        folder = Path(tempfile.mkdtemp(prefix="lego-harness-"))
        log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(str(python), "-B", str(program), str(theirs.fileno()), str(folder)),
                env={**env, "HOME": str(folder), "TMPDIR": str(folder)},
                cwd=folder,
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        return cls(process, reader, writer, log, folder)

    @property
    def is_alive(self) -> bool:
        return self._answers is not None and not self._answers.done()

    async def run(
        self, rollout: str, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, output: Path
    ) -> Ended:
        """Fork the program and wait for its end; cancelling kills it first. Raises HarnessError."""
        if not self.is_alive:
            raise HarnessError(f"the harness's fork server has ended: {self._last_words()}")
        ended = self._ended[rollout] = asyncio.get_running_loop().create_future()
        order = {"run": rollout, "argv": list(argv), "env": dict(env), "cwd": str(cwd), "output": str(output)}
        self._send(order)
        try:
            return await asyncio.shield(ended)
        finally:
            if not ended.done():
                self._send({"kill": rollout})
                await asyncio.shield(asyncio.wait([ended], timeout=_KILL_LIMIT_S))
            del self._ended[rollout]

    async def close(self) -> None:
        """End the server and everything it forked; its folder goes with it."""
        self._writer.close()
        if self._answers is None and self._process.returncode is None:
            self._process.kill()  # it is importing, has forked nothing that lasts, and listens to nobody
        try:
            async with asyncio.timeout(_KILL_LIMIT_S):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._answers is not None:
            await self._answers
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)  # where it was killed before it could

    async def _greet(self) -> None:
        try:
            async with asyncio.timeout(_START_LIMIT_S):
                greeting = await self._reader.readline()
        except TimeoutError as error:
            raise SetupError(f"the harness's fork server was not ready in {_START_LIMIT_S:.0f} s") from error
        if not greeting:
            raise SetupError(f"the harness's fork server ended while starting: {self._last_words()}")
        self.version = str(json.loads(greeting)["version"])
        self._answers = asyncio.create_task(self._receive())

    async def _receive(self) -> None:
        with contextlib.suppress(ConnectionError):
            while line := await self._reader.readline():
                answer: dict[str, Any] = json.loads(line)
                ended = self._ended.get(answer["ended"])
                if ended is not None and not ended.done():
                    ended.set_result(Ended(exit_code=answer["exit_code"], cpu_s=answer["cpu_s"]))
        for ended in self._ended.values():
            if not ended.done():
                ended.set_exception(HarnessError(f"the harness's fork server ended: {self._last_words()}"))

    def _send(self, order: dict[str, Any]) -> None:
        self._writer.write(json.dumps(order).encode() + b"\n")

    def _last_words(self) -> str:
        if self._log.closed:
            return "it was closed"
        self._log.seek(0)
        return one_line(self._log.read().decode(errors="replace")[-2000:], keep="end") or "it said nothing"
