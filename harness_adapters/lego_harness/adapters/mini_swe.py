"""mini-swe-agent: runs outside the sandbox, executes each command inside.

The program is trusted, the model's text is not: the program's own plug-in point sends each command through the
sandbox's `exec_prefix`. Each rollout is a command line of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

from lego_harness.adapters.base import Endpoint, HarnessExit
from lego_harness.adapters.forked import Forked
from lego_harness.adapters.install import MINI_SWE
from lego_harness.adapters.options import HarnessOptions
from lego_harness.errors import UsageError
from lego_harness.sandbox.base import Limits, Mount, Sandbox
from lego_harness.types import Task

_SETTINGS = {
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_CONFIGURED": "true",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_API_KEY": "dummy",
    # The proxy absorbs failures; what it reports is final, and a retry would only delay the end.
    "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
    "_TYPER_STANDARD_TRACEBACK": "1",
}


def mini_swe(options: HarnessOptions) -> MiniSweAdapter:
    """mini-swe-agent 2.4.6; it never compacts, so that it need not know the window."""
    if options.subagents:
        raise UsageError("mini-swe-agent has no sub-agents; expected subagents = false")
    return MiniSweAdapter()


class MiniSweAdapter:
    """One process per rollout."""

    name = MINI_SWE.name
    version = MINI_SWE.version
    limits = Limits()

    def __init__(self) -> None:
        self._program = Forked(MINI_SWE, "mini_fork_server.py", _SETTINGS)

    async def check(self) -> None:
        await self._program.check("import minisweagent; print(minisweagent.__version__)")

    def mounts(self) -> tuple[Mount, ...]:
        return ()

    async def start(self) -> None:
        await self._program.start()

    async def run(self, task: Task, sandbox: Sandbox, endpoint: Endpoint, *, timeout_s: float) -> HarnessExit:
        return await self._program.run(
            lambda home: _command_line(task, sandbox, endpoint, home), timeout_s=timeout_s
        )

    async def close(self) -> None:
        await self._program.close()


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
