"""One rollout from task to trajectory.

    session ─▶ sandbox ─▶ harness ⟂ budget ⟂ wall clock ─▶ export ─▶ capture ─▶ verdict ─▶ grade

Invariant: `run` returns a Trajectory for every way a rollout can end, and when it returns, raises or is cancelled, its
session is closed and its harness and sandboxes are gone. Data whose size the agent chose is processed in threads,
because other rollouts' sessions share this event loop. `outcome.py` decides why it ended. Knows nothing of training.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lego_harness.adapters.base import Adapter, HarnessExit
from lego_harness.errors import LegoError, SandboxEnded
from lego_harness.grading.grader import Grader
from lego_harness.grading.integrity import DEFAULT_POLICY, integrity_report
from lego_harness.grading.patch import make_patch
from lego_harness.grading.sealed import sealed_git
from lego_harness.outcome import Facts, Verdict, apply_policy, classify, classify_failure
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.session import Session
from lego_harness.sandbox.base import Phase, Sandbox, SandboxBackend, SandboxSpec
from lego_harness.sandbox.usable import is_spoilt
from lego_harness.tasks.folder import workspace_files
from lego_harness.tasks.set_up import set_up
from lego_harness.tasks.surroundings import surrounded
from lego_harness.types import (
    Budget,
    Finding,
    FindingKind,
    Grade,
    Policy,
    Sampling,
    StopReason,
    Task,
    Trajectory,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutSpec:
    """What to roll out."""

    id: str
    """Unique in the run."""
    task: Task
    epoch: int
    """Passes over the pool that came before."""
    sampling: Sampling
    budget: Budget
    """The wall clock is the smaller of its `max_seconds` and the task's own limit."""


class RolloutRunner:
    """Runs any number of rollouts at a time; one per worker."""

    def __init__(
        self,
        *,
        proxy: CaptureProxy,
        adapter: Adapter,
        backend: SandboxBackend,
        grader: Grader,
        label: str,
        integrity: Mapping[FindingKind, Policy] = DEFAULT_POLICY,
    ) -> None:
        self._proxy = proxy
        self._adapter = adapter
        self._backend = backend
        self._grader = grader
        self._label = label
        self._policy = integrity
        self._sealing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sealing")
        """One thread: siblings of a group find what the first has sealed."""

    async def run(self, spec: RolloutSpec) -> Trajectory:
        """One rollout. A failed one is data, not an exception; cancelling cleans up and propagates."""
        stopwatch = _Stopwatch()
        facts = await self._act(spec, stopwatch)
        verdict = classify(facts)
        grade, report = None, ()
        if verdict.stop.is_graded:
            verdict, grade = await self._grade(spec.task, facts, verdict)
            report = await asyncio.to_thread(_report, facts, grade)
            verdict, grade = apply_policy(verdict, grade, report, self._policy)
            stopwatch.lap("grading")
        patch = await asyncio.to_thread(_patch, facts)
        return self._trajectory(spec, facts, verdict, grade, report, patch, stopwatch)

    # --- the agent phase -------------------------------------------------------------------------

    async def _act(self, spec: RolloutSpec, stopwatch: _Stopwatch) -> Facts:
        facts = Facts(limit_s=min(spec.budget.max_seconds, spec.task.agent_timeout_s))
        session = self._proxy.open_session(spec.id, spec.sampling, spec.budget)
        try:
            facts.before = workspace_files(spec.task)
            files = {**facts.before, **await self._sealed(spec.task)}
            wanted = await surrounded(self._sandbox_spec(files, session), spec.task, is_setup=True)
            async with self._backend.open(wanted) as sandbox:
                await self._set_up(sandbox, spec.task, files, facts)
                stopwatch.lap("sandbox_setup")
                await self._race(spec, sandbox, session, facts)
                if facts.exit and facts.exit.is_odd:
                    facts.is_sandbox_spoilt = await is_spoilt(sandbox, self._backend, wanted)
                stopwatch.lap("agent")
                facts.exported = await sandbox.export()
        except (LegoError, OSError) as error:
            facts.failure = error
        finally:
            facts.capture = session.close()
        stopwatch.lap("sandbox_teardown")
        facts.is_sandbox_gone = await self._agent_lost_its_sandbox(facts)
        return facts

    async def _sealed(self, task: Task) -> Mapping[str, bytes]:
        return await asyncio.get_running_loop().run_in_executor(self._sealing, sealed_git, task.workspace)

    def _sandbox_spec(self, files: Mapping[str, bytes], session: Session) -> SandboxSpec:
        return SandboxSpec(
            phase=Phase.AGENT,
            files=files,
            label=self._label,
            proxy_socket=session.endpoint.socket,
            mounts=self._adapter.mounts(),
            limits=self._adapter.limits,
        )

    async def _set_up(self, sandbox: Sandbox, task: Task, files: Mapping[str, bytes], facts: Facts) -> None:
        """The task's own set-up: what it leaves is what the agent was given."""
        left = await set_up(sandbox, task, given=files, then=Phase.AGENT)
        facts.before = facts.before if left is None else left

    async def _race(self, spec: RolloutSpec, sandbox: Sandbox, session: Session, facts: Facts) -> None:
        """Until the harness ends, the session ends or the wall clock passes; then nothing runs any more."""
        harness = asyncio.create_task(
            self._adapter.run(spec.task, sandbox, session.endpoint, timeout_s=facts.limit_s)
        )
        ended = asyncio.create_task(session.ended.wait())
        try:
            await asyncio.wait({harness, ended}, timeout=facts.limit_s, return_when=asyncio.FIRST_COMPLETED)
            facts.is_out_of_time = not harness.done() and not ended.done()
        finally:
            is_over = harness.done()
            await _cancel(harness, ended)
        if is_over:
            facts.exit = harness.result()

    async def _agent_lost_its_sandbox(self, facts: Facts) -> bool:
        """Whether an agent that had acted brought its sandbox down, and the backend is well."""
        has_acted = facts.capture is not None and bool(facts.capture.turns)
        if not has_acted or facts.exported is not None or not isinstance(facts.failure, SandboxEnded):
            return False
        try:
            await self._backend.check()
        except (LegoError, OSError):
            return False
        return True

    # --- grading and the record ------------------------------------------------------------------

    async def _grade(self, task: Task, facts: Facts, verdict: Verdict) -> tuple[Verdict, Grade | None]:
        if verdict.forfeit:
            return verdict, Grade(reward=0.0, tests={}, duration_s=0.0, detail=verdict.forfeit)
        try:
            return verdict, await self._grader.grade(task, facts.exported or {}, before=facts.before)
        except (LegoError, OSError) as error:
            return classify_failure(error, otherwise=StopReason.FAILED_GRADER), None

    def _trajectory(
        self,
        spec: RolloutSpec,
        facts: Facts,
        verdict: Verdict,
        grade: Grade | None,
        report: tuple[Finding, ...],
        patch: str,
        stopwatch: _Stopwatch,
    ) -> Trajectory:
        capture = facts.capture
        turns = capture.turns if capture else ()
        engine_s = sum(turn.ended_s - turn.started_s for turn in turns)
        return Trajectory(
            id=spec.id,
            task_id=spec.task.id,
            epoch=spec.epoch,
            harness=self._adapter.name,
            sandbox=self._backend.name,
            stop_reason=verdict.stop,
            error=verdict.error,
            grade=grade,
            turns=turns,
            branches=capture.branches if capture else (),
            messages=capture.messages if capture else (),
            patch=patch,
            integrity=report,
            timings_s={**stopwatch.laps_s, "engine": engine_s},
        )


def _report(facts: Facts, grade: Grade | None) -> tuple[Finding, ...]:
    messages = facts.capture.messages if facts.capture else ()
    return integrity_report(messages, facts.before, facts.exported, grade)


def _patch(facts: Facts) -> str:
    return make_patch(facts.before, facts.exported) if facts.exported is not None else ""


@dataclass(kw_only=True, slots=True)
class _Stopwatch:
    """Seconds per stage, in the order the stages ended."""

    laps_s: dict[str, float] = field(default_factory=dict[str, float])
    _last: float = field(default_factory=time.monotonic)

    def lap(self, stage: str) -> None:
        now = time.monotonic()
        self.laps_s[stage] = now - self._last
        self._last = now


async def _cancel(harness: asyncio.Task[HarnessExit], ended: asyncio.Task[bool]) -> None:
    """Cancel both and wait until they are done, which for the harness means that it is dead."""
    harness.cancel()
    ended.cancel()
    await asyncio.gather(harness, ended, return_exceptions=True)
