"""Cheating agents against tasks, through the whole pipeline, and what each of them got.

    cheat × task ─ RolloutRunner ─▶ Trajectory ─▶ blocked | flagged | got through | honest | broken

Invariant: a cheat got through exactly when it earned a reward and nothing was found; the honest agent
must earn one. An attempt that could not be judged is `broken`, never blocked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lego_harness.grading.grader import Grader
from lego_harness.redteam.cheat import HONEST, Cheat
from lego_harness.redteam.scripted import ScriptAdapter, scripted_proxy
from lego_harness.rollout import RolloutRunner, RolloutSpec
from lego_harness.sandbox.base import SandboxBackend
from lego_harness.tasks.proof import prove
from lego_harness.text import one_line
from lego_harness.types import Budget, Finding, Sampling, Task, Trajectory

_AGENT_S = 120.0


class Result(StrEnum):
    """What an attempt came to."""

    BLOCKED = "blocked"
    FLAGGED = "flagged"
    """It earned a reward, and the integrity report names it."""
    GOT_THROUGH = "got through"
    HONEST = "honest"
    """The honest agent earned its reward."""
    FAILED = "honest failed"
    BROKEN = "not judged"

    @property
    def is_bad(self) -> bool:
        return self in (Result.GOT_THROUGH, Result.FAILED, Result.BROKEN)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One cheat against one task."""

    cheat: str
    mode: str
    task: str
    result: Result
    reward: float | None
    detail: str
    """Why it earned what it did; one line."""
    findings: tuple[Finding, ...]
    seconds: float


async def attempts(
    cheats: Sequence[Cheat],
    tasks: Sequence[Task],
    backend: SandboxBackend,
    *,
    label: str,
    concurrency: int = 2,
) -> AsyncIterator[Attempt]:
    """Every cheat against every task, in order, several at a time."""
    gate = asyncio.Semaphore(concurrency)

    async def one(cheat: Cheat, task: Task) -> Attempt:
        async with gate:
            return await attempt(cheat, task, backend, label=label)

    running = [asyncio.create_task(one(cheat, task)) for task in tasks for cheat in cheats]
    try:
        for each in running:
            yield await each
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def attempt(cheat: Cheat, task: Task, backend: SandboxBackend, *, label: str) -> Attempt:
    """One scripted agent from its sandbox to its grade."""
    started = time.monotonic()
    runner = RolloutRunner(
        proxy=scripted_proxy(cheat),
        adapter=ScriptAdapter(cheat, task),
        backend=backend,
        grader=Grader(backend, label=label),
        label=label,
    )
    spec = RolloutSpec(
        id=f"redteam-{cheat.name}",
        task=task,
        epoch=0,
        sampling=Sampling(),
        budget=Budget(max_seconds=_AGENT_S),
    )
    trajectory = await runner.run(spec)
    grade = trajectory.grade
    return Attempt(
        cheat=cheat.name,
        mode=cheat.mode,
        task=task.id,
        result=judge(cheat, trajectory),
        reward=grade.reward if grade else None,
        detail=one_line(grade.detail if grade else trajectory.error),
        findings=trajectory.integrity,
        seconds=time.monotonic() - started,
    )


async def defect_attempt(name: str, mode: str, task: Task, backend: SandboxBackend) -> Attempt:
    """A task that wrongly pays or punishes, and whether the proof of tasks refuses it."""
    started = time.monotonic()
    (proof,) = await prove([task], backend)
    return Attempt(
        cheat=name,
        mode=mode,
        task=task.id,
        result=Result.GOT_THROUGH if proof.holds else Result.BLOCKED,
        reward=None,
        detail=one_line(proof.reason),
        findings=(),
        seconds=time.monotonic() - started,
    )


def judge(cheat: Cheat, trajectory: Trajectory) -> Result:
    """What the trajectory says of the attempt."""
    grade = trajectory.grade
    if cheat.name == HONEST:
        return Result.HONEST if grade and grade.reward == 1 else Result.FAILED
    if grade is None:
        return Result.BLOCKED if trajectory.stop_reason.is_masked else Result.BROKEN
    if grade.reward == 0:
        return Result.BLOCKED
    return Result.FLAGGED if trajectory.integrity else Result.GOT_THROUGH
