"""A script in place of a harness, and nobody in place of the model.

Stand-ins for `Adapter` and for the proxy's session, so that a scripted agent goes through the same
`RolloutRunner` as every policy: same sandbox, export, grader, classification. Invariant: a session
holds one turn, which the integrity report sees as one tool call, the script itself.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import numpy as np

from lego_harness.adapters.base import Endpoint, HarnessExit
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.capture import Capture
from lego_harness.redteam.cheat import HONEST, Cheat
from lego_harness.sandbox.base import Limits, Mount, Sandbox
from lego_harness.types import Budget, Sampling, Task, Turn

_SIGNALLED = 128


class ScriptAdapter:
    """Runs one cheat's script as the agent."""

    name, version = "script", "1"
    limits = Limits(disk_mb=64)

    def __init__(self, cheat: Cheat, task: Task) -> None:
        self._cheat, self._task = cheat, task

    async def check(self) -> None:
        """Nothing is installed."""

    def mounts(self) -> tuple[Mount, ...]:
        """The reference solution, for the honest agent alone."""
        if self._cheat.name != HONEST:
            return ()
        return (Mount(source=self._task.solution.parent.resolve(), target="/solution"),)

    async def start(self) -> None:
        """Nothing is shared."""

    async def run(self, task: Task, sandbox: Sandbox, endpoint: Endpoint, *, timeout_s: float) -> HarnessExit:
        script = self._cheat.script.encode()
        result = await sandbox.exec(["python3", "-"], timeout_s=timeout_s, stdin=script)
        return HarnessExit(
            exit_code=result.exit_code,
            output=result.stdout + result.stderr,
            ordinary=frozenset(range(_SIGNALLED)),
            timed_out=result.timed_out,
            killed_inside=result.exit_code < 0 or result.exit_code > _SIGNALLED,
        )

    async def close(self) -> None:
        """Nothing was started."""


class _Session:
    def __init__(self, cheat: Cheat) -> None:
        self._cheat = cheat
        self.ended = asyncio.Event()
        nowhere = cast(Path, None)
        self.endpoint = Endpoint(host_url="", socket=nowhere, path="", model="")

    def close(self) -> Capture:
        call = {"type": "function", "function": {"name": "python", "arguments": {"code": self._cheat.script}}}
        said = {"role": "assistant", "content": "", "tool_calls": [call]}
        return Capture(turns=(_TURN,), branches=(), messages=(said,), asked=(), stop=None, error="")


class _Sessions:
    def __init__(self, cheat: Cheat) -> None:
        self._cheat = cheat

    def open_session(self, rollout_id: str, sampling: Sampling, budget: Budget) -> _Session:
        return _Session(self._cheat)


def scripted_proxy(cheat: Cheat) -> CaptureProxy:
    """What a `RolloutRunner` needs of a proxy, for an agent that calls no model."""
    return cast(CaptureProxy, _Sessions(cheat))


_TURN = Turn(
    index=0,
    context_ids=np.zeros(1, np.int32),
    sampled_ids=np.zeros(1, np.int32),
    logprobs=np.zeros(1, np.float32),
    routes=None,
    routes_from=0,
    policy_version=0,
    finish_reason="stop",
    fingerprint="",
    started_s=0.0,
    ended_s=0.0,
)
