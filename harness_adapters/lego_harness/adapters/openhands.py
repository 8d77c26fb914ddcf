"""The OpenHands SDK: runs outside the sandbox; its terminal and its file editor act inside.

The SDK is made to run where its tools act. That would cost its import in every sandbox (8 CPU-seconds before the first
request) and a Python 3.12 with 140 packages in every image. Imported once and forked, a rollout of three turns costs
0.6 CPU-seconds, and its first request comes after 2 seconds, one of which the SDK sleeps. So its tools are registered
again, with executors that go through the sandbox's `exec_prefix`, on any backend. The program is trusted, the
model's text is not. Stuck detection and compaction are the SDK's own.
"""

from __future__ import annotations

import json
from pathlib import Path

from lego_harness.adapters.base import Endpoint, HarnessExit
from lego_harness.adapters.forked import Forked
from lego_harness.adapters.install import OPENHANDS
from lego_harness.adapters.options import HarnessOptions
from lego_harness.sandbox.base import Limits, Mount, Sandbox
from lego_harness.types import Task

_PROGRAMS = Path(__file__).parent / "programs"
_PROGRAMS_INSIDE = "/opt/lego"
_INNER = ("inner_terminal.py", "inner_inputrc", "inner_files.py")
_SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENHANDS_SUPPRESS_BANNER": "1",
    "ALLOW_SHORT_CONTEXT_WINDOWS": "true",
    "LOG_LEVEL": "WARNING",
}
_STUCK, _CAPPED = 3, 4
"""Exit codes of our program when the SDK itself ended the agent; that is the policy's doing."""


def openhands(options: HarnessOptions) -> OpenHandsAdapter:
    """OpenHands SDK 1.58.2."""
    return OpenHandsAdapter(options)


class OpenHandsAdapter:
    """One process per rollout, one conversation per process."""

    name = OPENHANDS.name
    version = OPENHANDS.version
    limits = Limits()

    def __init__(self, options: HarnessOptions) -> None:
        self._options = options
        self._program = Forked(OPENHANDS, "openhands_fork_server.py", _SETTINGS)

    async def check(self) -> None:
        await self._program.check("from importlib.metadata import version; print(version('openhands-sdk'))")

    def mounts(self) -> tuple[Mount, ...]:
        return tuple(Mount(source=_PROGRAMS / name, target=f"{_PROGRAMS_INSIDE}/{name}") for name in _INNER)

    async def start(self) -> None:
        await self._program.start()

    async def run(self, task: Task, sandbox: Sandbox, endpoint: Endpoint, *, timeout_s: float) -> HarnessExit:
        told = {
            "instruction": task.instruction,
            "model": endpoint.model,
            "base_url": f"{endpoint.host_url}/v1",
            "prefix": sandbox.exec_prefix(),
            "programs": _PROGRAMS_INSIDE,
            "subagents": self._options.subagents,
            # It counts tokens of another vocabulary: a quarter is left for the difference and the reply.
            "max_input_tokens": self._options.context_tokens * 3 // 4,
        }
        return await self._program.run(
            lambda home: [json.dumps(told)], timeout_s=timeout_s, ordinary=frozenset({0, _STUCK, _CAPPED})
        )

    async def close(self) -> None:
        await self._program.close()
