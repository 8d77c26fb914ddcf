"""Tasks whose reward means nothing, detected while a run goes on.

    trajectories of a step ─ observe ─▶ newly quarantined tasks (an event each) ─▶ left out from then on

Two signs, neither of which costs a grading: a reward for an empty change, and the same change earning
different rewards. Invariant: what is known before a step is a pure function of the trajectories of
earlier steps, seen in any order and however often, so that a resumed run draws the same tasks as an
undisturbed one. R2E-Gym#27 has tasks that paid for doing nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from lego_harness.grading.patch import is_whole_patch
from lego_harness.types import Task, Trajectory

TaskT = TypeVar("TaskT", bound=Task)
EVENT = "task_quarantined"


@dataclass(frozen=True, kw_only=True, slots=True)
class Quarantined:
    """Why a task is left out; the fields of its event."""

    task_id: str
    reason: str
    trajectory_id: str
    """The rollout that showed it."""
    step: int
    """The step whose rollouts showed it: the task is left out of all steps that begin after that one."""


@dataclass(kw_only=True, slots=True)
class Quarantine:
    """What is known of a run's tasks. Plain values only: a checkpoint carries it."""

    found: dict[str, Quarantined] = field(default_factory=dict[str, Quarantined])
    """By task."""
    earned: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """By task and digest of a change: each reward it earned, and the step where it first did."""

    def observe(self, trajectories: Iterable[Trajectory], *, step: int) -> tuple[Quarantined, ...]:
        """Look at graded rollouts of a step; returns the tasks that are newly quarantined because of them."""
        new: list[Quarantined] = []
        for trajectory in trajectories:
            found = self._fault(trajectory, step)
            known = self.found.get(trajectory.task_id)
            if found is None or (known and known.step <= found.step):
                continue
            self.found[found.task_id] = found
            if known is None:
                new.append(found)
        return tuple(new)

    def allowed(self, tasks: Sequence[TaskT], *, step: int) -> tuple[TaskT, ...]:
        """The tasks that `step` may train on, in order: those that no earlier step quarantined."""
        return tuple(t for t in tasks if t.id not in self.found or self.found[t.id].step >= step)

    def _fault(self, trajectory: Trajectory, step: int) -> Quarantined | None:
        grade, patch = trajectory.grade, trajectory.patch
        if grade is None or not grade.tests or not is_whole_patch(patch):
            return None
        if grade.reward > 0 and not patch:
            return _quarantined(trajectory, "a reward for no change at all", step)
        if _is_broken(trajectory):
            return None
        earned = self.earned.setdefault(_change(trajectory), {})
        reward = f"{grade.reward:g}"
        earned[reward] = min(step, earned.get(reward, step))
        if len(earned) == 1:
            return None
        reason = f"the same change earned {' and '.join(sorted(earned))}"
        return _quarantined(trajectory, reason, sorted(earned.values())[1])


def _quarantined(trajectory: Trajectory, reason: str, step: int) -> Quarantined:
    return Quarantined(task_id=trajectory.task_id, reason=reason, trajectory_id=trajectory.id, step=step)


def _change(trajectory: Trajectory) -> str:
    digest = hashlib.sha256(trajectory.patch.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{trajectory.task_id} {digest[:32]}"


def _is_broken(trajectory: Trajectory) -> bool:
    """Whether more than the tests decided its reward, which may then differ between equal changes."""
    grade = trajectory.grade
    decided = grade is not None and all(outcome == "passed" for outcome in grade.tests.values())
    return grade is not None and decided != (grade.reward > 0)
