"""Rollouts that are stored before they count.

Owns the path from a spec to its recorded attempts. Invariants (law 8): a trajectory is stored before
anybody receives it, and never while the weights that may have sampled it are unproven; a rollout that an
interrupted run finished is used and not sampled again, and one that failed there is repeated under a
new name. Decides nothing about training.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from lego_core.together import together
from lego_harness.errors import EngineError, SetupError, UsageError
from lego_harness.rollout import RolloutSpec
from lego_harness.types import StopReason, Trajectory

Attempts = tuple[Trajectory, ...]
"""What was recorded for one rollout: the last attempt counts, earlier ones failed and were repeated."""


def group_attempts(trajectories: Iterable[Trajectory]) -> dict[str, Attempts]:
    """Attempts by rollout id, in the order of recording."""
    attempts: dict[str, Attempts] = {}
    for trajectory in trajectories:
        rollout_id = trajectory.id.partition("~")[0]
        attempts[rollout_id] = (*attempts.get(rollout_id, ()), trajectory)
    return attempts


class Rollouts(Protocol):
    """Runs rollouts, as many at a time as it likes; those asked for first begin first."""

    async def run(self, spec: RolloutSpec) -> Trajectory: ...


class TrajectoryStore(Protocol):
    """Where trajectories are kept; on disk when `append_trajectory` returns."""

    def append_trajectory(self, trajectory: Trajectory, *, step: int | None) -> None: ...


def open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedRollouts:
    """`Rollouts`, recorded."""

    rollouts: Rollouts
    store: TrajectoryStore
    stored: dict[str, Attempts]
    """Uncommitted trajectories of an interrupted run, by rollout; each is handed out once."""
    proven: asyncio.Event = field(default_factory=open_gate)
    """Cleared while the engines hold weights that no probe has proven. What they sample then waits to be recorded;
    otherwise a run that the probe ends would be resumed with it."""

    async def run(self, specs: Sequence[RolloutSpec], *, step: int | None) -> dict[str, Attempts]:
        """The attempts of every spec, by rollout. `step` is the step they belong to, None in an evaluation. Raises
        EngineError as soon as a rollout has lost the engine."""
        done = await together(self._run_one(spec, step) for spec in specs)
        return {spec.id: attempts for spec, attempts in zip(specs, done, strict=True)}

    async def _run_one(self, spec: RolloutSpec, step: int | None) -> Attempts:
        attempts = self.stored.pop(spec.id, ())
        _require_same_task(attempts, spec)
        if attempts and not attempts[-1].stop_reason.is_failure:
            return attempts
        if attempts:
            spec = replace(spec, id=f"{spec.id}~{len(attempts)}")
        trajectory = await self.rollouts.run(spec)
        await self.proven.wait()
        self.store.append_trajectory(trajectory, step=step)
        if trajectory.stop_reason is StopReason.FAILED_ENGINE:
            raise EngineError(f"rollout {spec.id} lost the engine: {trajectory.error}")
        return (*attempts, trajectory)


def _require_same_task(attempts: Attempts, spec: RolloutSpec) -> None:
    """Rollouts are named by their place, so that a name reveals nothing about the task."""
    for other in (attempt for attempt in attempts if attempt.task_id != spec.task.id):
        raise UsageError(
            f"trajectories: {other.id} is of task {other.task_id!r}, expected {spec.task.id!r}: the tasks are "
            "not those that this run was started with; bring the task pool back to what it was, or start a "
            "new run"
        )


def require_graded(done: Sequence[Trajectory]) -> None:
    """Raise SetupError if most rollouts could not be graded: going on would train on whatever happened to survive."""
    failed = [t for t in done if t.grade is None]
    if 2 * len(failed) > len(done):
        raise SetupError(
            f"only {len(done) - len(failed)} of {len(done)} rollouts were graded, expected most; "
            f"first failure ({failed[0].stop_reason.value}): {failed[0].error}"
        )
