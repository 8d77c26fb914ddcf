"""`command`: any program that speaks one of the proxy's dialects, as a table describes it.

The table is in `options.py`. The program runs in the sandbox, behind the same forwarder as our own harnesses, or
on the host; its environment is what the table says. Invariant: when `run` returns, raises or is cancelled,
the program's session is dead and its home is gone. Knows nothing about the program it runs.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from lego_harness.adapters.base import Endpoint, HarnessExit
from lego_harness.adapters.inside import (
    FORWARDER,
    HOME,
    exit_inside,
    filled,
    forwarded,
    last_words,
    values_inside,
)
from lego_harness.adapters.options import CommandConfig, HarnessOptions
from lego_harness.errors import SetupError, UsageError
from lego_harness.sandbox.base import PROXY_SOCKET, Limits, Mount, Sandbox
from lego_harness.sandbox.processes import run_bounded
from lego_harness.types import Task

_FILE = "instruction.md"
_KEEP_STDIN = ("/bin/sh", "-c", f'cat > "$HOME/{_FILE}" && exec "$@" < "$HOME/{_FILE}"', "sh")
_OUTPUT_BYTES = 1_000_000


def command(options: HarnessOptions) -> CommandAdapter:
    """The table's program; raises UsageError if there is no table."""
    if options.command is None:
        raise UsageError("harness 'command' needs to be told what to run: a table [harness.command]")
    return CommandAdapter(options.command, context_tokens=options.context_tokens)


class CommandAdapter:
    """Runs what the table says."""

    name = "command"

    def __init__(self, config: CommandConfig, *, context_tokens: int) -> None:
        self._config, self._context_tokens = config, context_tokens
        self.version = config.version
        self.limits = Limits(memory_mb=config.memory_mb)

    async def check(self) -> None:
        if fault := _fault(self._config):
            raise SetupError(f"harness.command: {fault}")

    def mounts(self) -> tuple[Mount, ...]:
        if self._config.place == "host":
            return ()
        own = (Mount(source=Path(s).absolute(), target=t) for t, s in self._config.mounts.items())
        return (FORWARDER, *own)

    async def start(self) -> None:
        """Nothing is shared."""

    async def run(self, task: Task, sandbox: Sandbox, endpoint: Endpoint, *, timeout_s: float) -> HarnessExit:
        run = self._run_inside if self._config.place == "sandbox" else self._run_on_host
        return await run(task.instruction.encode(), sandbox, endpoint, timeout_s)

    async def close(self) -> None:
        """Nothing to stop: `run` leaves nothing behind."""

    async def _run_inside(
        self, instruction: bytes, sandbox: Sandbox, endpoint: Endpoint, timeout_s: float
    ) -> HarnessExit:
        values = {
            **values_inside(endpoint),
            "{socket}": PROXY_SOCKET,
            "{path}": endpoint.path,
            "{instruction_file}": f"{HOME}/{_FILE}",
        }
        argv, env = self._filled(values)
        command = forwarded((*_KEEP_STDIN, *argv))
        result = await sandbox.exec(command, timeout_s=timeout_s, env=env, stdin=instruction)
        return exit_inside(result, self._ordinary)

    async def _run_on_host(
        self, instruction: bytes, sandbox: Sandbox, endpoint: Endpoint, timeout_s: float
    ) -> HarnessExit:
        with tempfile.TemporaryDirectory(prefix="lego-harness-", ignore_cleanup_errors=True) as home:
            values = {
                "{url}": endpoint.host_url,
                "{socket}": str(endpoint.socket),
                "{path}": endpoint.path,
                "{model}": endpoint.model,
                "{instruction_file}": _written(Path(home, _FILE), instruction),
                "{sandbox}": json.dumps(sandbox.exec_prefix()),
            }
            argv, env = self._filled(values)
            ended = await run_bounded(
                _alone(argv, {**_own(home), **env}, home),
                timeout_s=timeout_s,
                output_bytes=_OUTPUT_BYTES,
                stdin=instruction,
            )
            return HarnessExit(
                exit_code=ended.exit_code,
                output=last_words(ended.as_exec_result()),
                ordinary=self._ordinary,
                timed_out=ended.timed_out,
            )

    def _filled(self, values: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        values = {**values, "{context_tokens}": str(self._context_tokens)}
        argv = [filled(word, values) for word in self._config.argv]
        return argv, {name: filled(value, values) for name, value in self._config.env.items()}

    @property
    def _ordinary(self) -> frozenset[int]:
        return frozenset(self._config.exit_codes)


def _fault(config: CommandConfig) -> str:
    """What in the table does not hold on this host; empty if everything does."""
    missing = [source for source in config.mounts.values() if not Path(source).exists()]
    if missing:
        return f"mounts name {missing[0]}, which is not on this host"
    if config.place == "host" and shutil.which(config.argv[0]) is None:
        return f"argv names {config.argv[0]}, which is not on this host's PATH"
    return ""


def _written(file: Path, content: bytes) -> str:
    file.write_bytes(content)
    return str(file)


def _own(home: str) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": home}


def _alone(argv: Sequence[str], env: Mapping[str, str], folder: str) -> list[str]:
    """`argv` with exactly this environment, in this folder; it ends when this process does."""
    settings = (f"{name}={value}" for name, value in env.items())
    return [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "env",
        "--ignore-environment",
        f"--chdir={folder}",
        *settings,
        *argv,
    ]
