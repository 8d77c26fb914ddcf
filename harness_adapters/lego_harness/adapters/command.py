"""`command`: any program of yours that speaks one of the proxy's dialects.

    [harness]
    name = "command"
    [harness.command]
    argv = ["/opt/agent/run", "--api", "{url}/v1", "--model", "{model}", "--task", "{instruction_file}"]
    env = { OPENAI_API_KEY = "dummy" }
    mounts = { "/opt/agent" = "/srv/agent-1.2" }

Words of `argv` and values of `env` may hold

    {url}               where the dialects are served: `{url}/v1/chat/completions`, …
    {socket} {path}     the same without TCP: the proxy's unix socket, and what stands before `/v1`
    {model}             the model name to send
    {context_tokens}    the run's window
    {instruction_file}  a file with the task's instruction, which also comes on stdin
    {sandbox}           on the host only: a JSON list, the argv before a command that is to run in the sandbox

In the sandbox it starts in the workspace; on the host in an empty folder that is its home, and there it
is trusted: whatever the model wants to run must go through `{sandbox}`. Either way its environment is
what `env` says. Knows nothing of what it runs.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lego_harness.adapters.base import Endpoint, HarnessExit, HarnessOptions
from lego_harness.adapters.inside import FORWARDER, HOME, exit_inside, filled, forwarded, values_inside
from lego_harness.errors import SetupError
from lego_harness.sandbox.base import PROXY_SOCKET, Limits, Mount, Sandbox
from lego_harness.sandbox.processes import run_bounded
from lego_harness.types import Task

_FILE = "instruction.md"
_KEEP_STDIN = ("/bin/sh", "-c", f'cat > "$HOME/{_FILE}" && exec "$@" < "$HOME/{_FILE}"', "sh")
_OUTPUT_BYTES = 20_000


class CommandConfig(BaseModel):
    """The table `[harness.command]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    argv: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    env: dict[str, str] = {}
    place: Literal["sandbox", "host"] = "sandbox"
    mounts: dict[str, str] = {}
    """Path inside the sandbox → host path that is shown there, read-only."""
    version: str = "unknown"
    """Names the program in the run's records."""
    exit_codes: tuple[int, ...] = (0,)
    """Those that say nothing went wrong with the program itself."""
    memory_mb: int = Field(default=1024, ge=64)
    """Of the sandbox."""

    @model_validator(mode="after")
    def _fits_its_place(self) -> CommandConfig:
        if self.place == "sandbox" and any("{sandbox}" in word for word in (*self.argv, *self.env.values())):
            raise ValueError('{sandbox} enters the sandbox from outside, expected it with place = "host"')
        if self.place == "host" and self.mounts:
            raise ValueError(
                'mounts are shown to a program in the sandbox, expected none with place = "host"'
            )
        return self


class CommandAdapter:
    """Runs what the table says."""

    name = "command"

    def __init__(self, config: CommandConfig, options: HarnessOptions) -> None:
        self._config, self._options = config, options
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
                _alone(argv, {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, **env}, home),
                timeout_s=timeout_s,
                output_bytes=_OUTPUT_BYTES,
                stdin=instruction,
            )
            return HarnessExit(
                exit_code=ended.exit_code,
                output=(ended.stdout + ended.stderr).decode(errors="replace"),
                ordinary=self._ordinary,
                timed_out=ended.timed_out,
            )

    def _filled(self, values: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        values = {**values, "{context_tokens}": str(self._options.context_tokens)}
        argv = [filled(word, values) for word in self._config.argv]
        return argv, {name: filled(value, values) for name, value in self._config.env.items()}

    @property
    def _ordinary(self) -> frozenset[int]:
        return frozenset(self._config.exit_codes)


def _fault(config: CommandConfig) -> str:
    """What of the table does not hold on this host; empty when all does."""
    missing = [source for source in config.mounts.values() if not Path(source).exists()]
    if missing:
        return f"mounts name {missing[0]}, which is not on this host"
    if config.place == "host" and shutil.which(config.argv[0]) is None:
        return f"argv names {config.argv[0]}, which is not on this host's PATH"
    return ""


def _written(file: Path, content: bytes) -> str:
    file.write_bytes(content)
    return str(file)


def _alone(argv: Sequence[str], env: Mapping[str, str], folder: str) -> list[str]:
    """`argv` with this environment and nothing else, in this folder, ended when this process is."""
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
