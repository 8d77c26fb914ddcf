"""One host process run to its end, its time limit or its caller's cancellation.

Invariant: when `run_bounded` returns or raises, the process it started is dead and reaped, and no
more than `output_bytes` of each stream was kept. Knows nothing of sandboxes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from lego_harness.sandbox.base import ExecResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a process ended, and the first bytes of what it wrote."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool
    duration_s: float

    def as_exec_result(
        self, *, ran_out_of_memory: bool = False, machine_ran_out_of_memory: bool = False
    ) -> ExecResult:
        """The same with its output as text."""
        return ExecResult(
            exit_code=self.exit_code,
            stdout=self.stdout.decode("utf-8", "replace"),
            stderr=self.stderr.decode("utf-8", "replace"),
            timed_out=self.timed_out,
            duration_s=self.duration_s,
            ran_out_of_memory=ran_out_of_memory,
            machine_ran_out_of_memory=machine_ran_out_of_memory,
        )


async def run_bounded(
    argv: Sequence[str],
    *,
    timeout_s: float,
    output_bytes: int,
    stdin: bytes | None = None,
    before_kill: Callable[[], Awaitable[None]] | None = None,
) -> Ended:
    """Run `argv` in a session of its own; `before_kill` is awaited when it has to be killed.

    Raises OSError when it cannot be started.
    """
    started = time.monotonic()
    output, errors = bytearray(), bytearray()
    process = await _spawn(argv, has_stdin=stdin is not None)
    ended = asyncio.ensure_future(_drive(process, stdin, output, errors, output_bytes))
    try:
        done, _ = await asyncio.wait([ended], timeout=timeout_s)
    finally:
        if not ended.done():
            await asyncio.shield(_kill(process, ended, before_kill))
    return Ended(
        exit_code=process.returncode if process.returncode is not None else -signal.SIGKILL,
        stdout=bytes(output),
        stderr=bytes(errors),
        timed_out=not done,
        duration_s=time.monotonic() - started,
    )


async def _spawn(argv: Sequence[str], *, has_stdin: bool) -> asyncio.subprocess.Process:
    """Start to the end also when cancelled: asyncio can wait for ever on a half-connected process."""
    spawning = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE if has_stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(spawning)
    except asyncio.CancelledError:
        process = await spawning
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
        raise


async def _drive(
    process: asyncio.subprocess.Process, stdin: bytes | None, output: bytearray, errors: bytearray, limit: int
) -> None:
    assert process.stdout is not None
    assert process.stderr is not None
    await asyncio.gather(
        _keep(process.stdout, output, limit), _keep(process.stderr, errors, limit), _feed(process, stdin)
    )
    await process.wait()


async def _keep(stream: asyncio.StreamReader, kept: bytearray, limit: int) -> None:
    """Read to the end, so that the writer never blocks, but keep only the first `limit` bytes."""
    while chunk := await stream.read(65536):
        kept += chunk[: max(0, limit - len(kept))]


async def _feed(process: asyncio.subprocess.Process, stdin: bytes | None) -> None:
    if process.stdin is None or stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may end without reading
        process.stdin.write(stdin)
        await process.stdin.drain()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.close()
        await process.stdin.wait_closed()


async def _kill(
    process: asyncio.subprocess.Process,
    ended: asyncio.Future[None],
    before_kill: Callable[[], Awaitable[None]] | None,
) -> None:
    try:
        if before_kill is not None:
            await before_kill()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await asyncio.wait([ended], timeout=10)
    if not ended.done():  # a stream held open elsewhere must not hold the caller
        ended.cancel()
        await asyncio.wait([ended], timeout=1)
