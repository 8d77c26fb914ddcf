"""mini-swe-agent: runs outside the sandbox, executes each command inside.

The program is trusted, the model's text is not: commands go through the sandbox's `exec_prefix`, by
the program's own plug-in point for it. Each rollout is its own command line in a process forked from
one that imported the program once, with a home, a folder and an environment of its own. Reads no
transcript.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path

from lego_harness.adapters.base import Endpoint, HarnessExit, HarnessOptions
from lego_harness.adapters.fork_server import ForkServer
from lego_harness.adapters.install import MINI_SWE, reported_version
from lego_harness.errors import SetupError, UsageError
from lego_harness.sandbox.base import Mount, Sandbox
from lego_harness.types import Task

_PROGRAM = Path(__file__).parent / "programs" / "mini_fork_server.py"
_SETTINGS = {
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_CONFIGURED": "true",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_API_KEY": "dummy",
    # The proxy absorbs failures; what it reports is final, and a retry would only delay the end.
    "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
    "_TYPER_STANDARD_TRACEBACK": "1",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
}
_OUTPUT_BYTES = 20_000


def mini_swe(options: HarnessOptions) -> MiniSweAdapter:
    """mini-swe-agent 2.4.6; it never compacts, so that it need not know the window."""
    if options.subagents:
        raise UsageError("mini-swe-agent has no sub-agents; expected subagents = false")
    return MiniSweAdapter()


class MiniSweAdapter:
    """One fork server, one process per rollout."""

    name = MINI_SWE.name
    version = MINI_SWE.version

    def __init__(self) -> None:
        self._server: ForkServer | None = None
        self._starting = asyncio.Lock()
        self._num_rollouts = 0

    async def check(self) -> None:
        said = [str(_python()), "-c", "import minisweagent; print(minisweagent.__version__)"]
        await asyncio.to_thread(reported_version, said, MINI_SWE, _environment())

    def mounts(self) -> tuple[Mount, ...]:
        return ()

    async def start(self) -> None:
        await self._running_server()

    async def run(self, task: Task, sandbox: Sandbox, endpoint: Endpoint, *, timeout_s: float) -> HarnessExit:
        server = await self._running_server()
        self._num_rollouts += 1
        with tempfile.TemporaryDirectory(dir=server.folder, ignore_cleanup_errors=True) as home:
            output = Path(home) / "output"
            ended = server.run(
                str(self._num_rollouts),
                _command_line(task, sandbox, endpoint, Path(home)),
                env={**_environment(), "HOME": home},
                cwd=Path(home),
                output=output,
            )
            try:
                exit_code = (await asyncio.wait_for(ended, timeout_s)).exit_code
            except TimeoutError:
                return HarnessExit(exit_code=-9, output=_tail(output), timed_out=True)
            return HarnessExit(exit_code=exit_code, output=_tail(output))

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
            self._server = None

    async def _running_server(self) -> ForkServer:
        async with self._starting:
            if self._server is None or not self._server.is_alive:
                await self.close()
                self._server = await ForkServer.launch(_python(), _PROGRAM, _environment())
            if self._server.version != self.version:
                raise SetupError(f"mini-swe-agent says {self._server.version!r}, expected {self.version!r}")
            return self._server


def _command_line(task: Task, sandbox: Sandbox, endpoint: Endpoint, home: Path) -> list[str]:
    settings = {
        "environment.environment_class": "sandbox_environment.SandboxEnvironment",
        "environment.prefix": json.dumps(sandbox.exec_prefix()),
        "model.model_kwargs.api_base": f"{endpoint.host_url}/v1",
        "model.model_kwargs.num_retries": "0",
        "model.model_kwargs.max_retries": "0",
    }
    config = [flag for name, value in settings.items() for flag in ("-c", f"{name}={value}")]
    return [
        *("mini", "--yolo", "--exit-immediately", "--cost-limit=0", f"--model=openai/{endpoint.model}"),
        *(f"--task={task.instruction}", f"--output={home / 'trajectory.json'}", "-c", "mini.yaml", *config),
    ]


def _environment() -> dict[str, str]:
    return {**_SETTINGS, "PATH": os.environ.get("PATH", os.defpath)}


def _python() -> Path:
    return MINI_SWE.folder / "bin" / "python"


def _tail(output: Path) -> str:
    if not output.exists():
        return ""
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _OUTPUT_BYTES))
        return file.read().decode(errors="replace")
