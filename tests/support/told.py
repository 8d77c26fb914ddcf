"""What an adapter tells its harness: a sandbox that notes commands instead of running them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lego_harness.adapters.base import Adapter, Endpoint, HarnessExit
from lego_harness.sandbox.base import WORKSPACE, ExecResult
from lego_harness.types import Task

SECRET = "s3cr3t"
TASK = Task(id="ops-1", path=Path("/nowhere"), instruction="Fix {url} and {port}.\n")
ENDPOINT = Endpoint(
    host_url=f"http://127.0.0.1:4711/rollout/{SECRET}",
    socket=Path("/run/worker/proxy.sock"),
    path=f"/rollout/{SECRET}",
    model="policy-1",
)


@dataclass
class Told:
    """The one command that a harness was started with."""

    exit_code: int = 0
    stdout: str = "out\n"
    machine_ran_out_of_memory: bool = False
    argv: list[str] = field(default_factory=list[str])
    env: dict[str, str] = field(default_factory=dict[str, str])
    stdin: bytes | None = None

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        cwd: str = WORKSPACE,
        stdin: bytes | None = None,
    ) -> ExecResult:
        assert not self.argv
        self.argv, self.env, self.stdin = list(argv), dict(env or {}), stdin
        return ExecResult(
            exit_code=self.exit_code,
            stdout=self.stdout,
            stderr="err\n",
            timed_out=False,
            duration_s=0.1,
            machine_ran_out_of_memory=self.machine_ran_out_of_memory,
        )

    def exec_prefix(self, env: Mapping[str, str] | None = None, cwd: str = WORKSPACE) -> list[str]:
        return ["enter", "sandbox 1"]

    async def export(self) -> dict[str, bytes]:
        return {}

    @property
    def files(self) -> dict[str, str]:
        """What the forwarder writes below the home first."""
        words = self.argv[7 : self.argv.index("--")]
        return {name: text for name, _, text in (word.partition("=") for word in words)}

    @property
    def command(self) -> list[str]:
        """The harness's own command line."""
        return self.argv[self.argv.index("--") + 1 :]

    def text(self) -> str:
        """All of it but the instruction."""
        return json.dumps([self.argv, self.env])


async def told_by(
    adapter: Adapter, exit_code: int = 0, stdout: str = "out\n", *, machine_ran_out_of_memory: bool = False
) -> tuple[Told, HarnessExit]:
    """What the adapter's harness would be told in a rollout, and what is made of its end."""
    told = Told(exit_code=exit_code, stdout=stdout, machine_ran_out_of_memory=machine_ran_out_of_memory)
    return told, await adapter.run(TASK, told, ENDPOINT, timeout_s=5)
