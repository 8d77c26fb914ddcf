"""Stand-ins behind every protocol of a rollout: proxy, sandbox, harness, grader.

Each does nothing by itself; a test says what the harness does and which step fails, and reads back
what was opened and closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lego_harness.adapters.base import Endpoint, HarnessExit
from lego_harness.proxy.capture import Capture
from lego_harness.rollout import RolloutRunner, RolloutSpec
from lego_harness.sandbox.base import ExecResult, Limits, Phase, SandboxSpec
from lego_harness.types import (
    Branch,
    Budget,
    Finding,
    FindingKind,
    Grade,
    Policy,
    Sampling,
    StopReason,
    Task,
    Turn,
)


class FakeSession:
    """A session whose end the test decides."""

    def __init__(self, rollout_id: str) -> None:
        self.rollout_id = rollout_id
        self.endpoint = Endpoint(host_url="http://127.0.0.1:1/r", socket=Path("/s"), path="/r", model="m")
        self.ended = asyncio.Event()
        self.is_closed = False
        self.num_turns = 0
        self.is_cut = False
        self._stop: StopReason | None = None
        self._error = ""

    def end(self, stop: StopReason, error: str = "") -> None:
        self._stop, self._error = stop, error
        self.ended.set()

    def close(self) -> Capture:
        self.is_closed = True
        turns = tuple(make_turn(index) for index in range(self.num_turns))
        if self.is_cut:
            turns = (*turns[:-1], replace(turns[-1], finish_reason="length"))
        return Capture(
            turns=turns,
            branches=(make_branch(turns),) if turns else (),
            messages=({"role": "user", "content": "x"},) if turns else (),
            asked=(),
            stop=self._stop,
            error=self._error,
        )


@dataclass
class FakeWorld:
    """What happens in a rollout, and what was seen of it."""

    harness: Callable[[FakeSession, FakeWorld], Awaitable[HarnessExit]]
    open_error: Exception | None = None
    export_error: Exception | None = None
    close_error: Exception | None = None
    check_error: Exception | None = None
    grade_error: Exception | None = None
    grades: bool = True
    findings: tuple[Finding, ...] = ()
    policy: Mapping[FindingKind, Policy] = field(default_factory=dict)
    mounts: tuple[Any, ...] = ()
    serves: tuple[bool, bool] = (True, True)
    """Whether the agent's sandbox does any longer, and whether a fresh one does."""
    files: dict[str, bytes] = field(default_factory=dict)
    session: FakeSession | None = None
    opened: list[SandboxSpec] = field(default_factory=list)
    num_open: int = 0
    num_graded: int = 0
    is_harness_running: bool = False

    def runner(self) -> RolloutRunner:
        return RolloutRunner(
            proxy=_Proxy(self),  # type: ignore[arg-type]
            adapter=_Adapter(self),
            backend=_Backend(self),
            grader=_Grader(self),  # type: ignore[arg-type]
            label="run-1",
            integrity=self.policy,
        )


@dataclass
class _Proxy:
    world: FakeWorld

    def open_session(self, rollout_id: str, sampling: Sampling, budget: Budget) -> FakeSession:
        self.world.session = FakeSession(rollout_id)
        return self.world.session


class _Adapter:
    name, version, limits = "fake-harness", "1", Limits()

    def __init__(self, world: FakeWorld) -> None:
        self._world = world

    async def check(self) -> None: ...

    def mounts(self) -> tuple[Any, ...]:
        return self._world.mounts

    async def start(self) -> None: ...

    async def run(self, task: Task, sandbox: Any, endpoint: Endpoint, *, timeout_s: float) -> HarnessExit:
        assert self._world.session is not None
        self._world.is_harness_running = True
        try:
            return await self._world.harness(self._world.session, self._world)
        finally:
            self._world.is_harness_running = False

    async def close(self) -> None: ...


class _Sandbox:
    def __init__(self, world: FakeWorld, *, serves: bool) -> None:
        self._world, self._serves = world, serves

    async def exec(self, argv: Sequence[str], *, timeout_s: float) -> ExecResult:
        assert not self._world.is_harness_running, "asked while the harness could still act"
        return ExecResult(
            exit_code=int(not self._serves), stdout="", stderr="", timed_out=False, duration_s=0.0
        )

    async def export(self) -> dict[str, bytes]:
        assert not self._world.is_harness_running, "exported while the harness could still write"
        if self._world.export_error:
            raise self._world.export_error
        return self._world.files


class _Backend:
    name = "fake-sandbox"
    cannot_hold: tuple[str, ...] = ()

    def __init__(self, world: FakeWorld) -> None:
        self._world = world

    async def check(self) -> None:
        if self._world.check_error:
            raise self._world.check_error

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncIterator[_Sandbox]:
        if self._world.open_error:
            raise self._world.open_error
        self._world.opened.append(spec)
        self._world.files = dict(spec.files)
        self._world.num_open += 1
        try:
            yield _Sandbox(self._world, serves=self._world.serves[spec.phase is not Phase.AGENT])
        finally:
            self._world.num_open -= 1
        if self._world.close_error:
            raise self._world.close_error

    async def reap(self, label: str | None = None) -> int:
        return 0


@dataclass
class _Grader:
    world: FakeWorld

    async def grade(self, task: Task, exported: Any, *, before: Any) -> Grade:
        assert self.world.num_open == 0, "graded while the agent's sandbox was open"
        if self.world.grade_error:
            raise self.world.grade_error
        self.world.num_graded += 1
        reward = float(exported.get("calc.py") == b"right\n")
        return Grade(
            reward=reward,
            tests={"t": "passed" if reward else "failed"},
            duration_s=0.1,
            findings=self.world.findings,
        )


def make_spec(task: Task, *, max_seconds: float = 30.0) -> RolloutSpec:
    return RolloutSpec(
        id="s00001.g00.r0",
        task=task,
        epoch=0,
        sampling=Sampling(),
        budget=Budget(max_turns=8, max_tokens=4096, max_seconds=max_seconds),
    )


def make_turn(index: int) -> Turn:
    return Turn(
        index=index,
        context_ids=np.array([1, 2], np.int32),
        sampled_ids=np.array([3], np.int32),
        logprobs=np.array([-0.5], np.float32),
        routes=None,
        routes_from=0,
        policy_version=0,
        finish_reason="stop",
        fingerprint="f",
        started_s=float(index),
        ended_s=index + 0.25,
    )


def make_branch(turns: tuple[Turn, ...]) -> Branch:
    count = 3 * len(turns)
    return Branch(
        ids=np.zeros(count, np.int32),
        mask=np.arange(count) % 3 == 2,
        logprobs=np.zeros(count, np.float32),
        versions=np.full(count, -1, np.int32),
        routes=None,
    )
