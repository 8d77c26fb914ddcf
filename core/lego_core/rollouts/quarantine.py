"""Tasks whose reward means nothing, noticed while a run goes on.

    trajectories of a step ─ observe ─▶ newly quarantined tasks (an event each) ─▶ left out from the next step

Two signs, neither of which costs a grading: a reward for an empty change, and one and the same change
that earned different rewards. Invariant: a pure function of the trajectories seen, in any order and
however often, so that a resumed run that reads its store again knows the same tasks. R2E-Gym#27 has
tasks that paid for doing nothing.
"""

from __future__ import annotations

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


@dataclass(kw_only=True, slots=True)
class Quarantine:
    """What is known of a run's tasks."""

    found: dict[str, Quarantined] = field(default_factory=dict[str, Quarantined])
    """By task."""
    _rewards: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])

    def observe(self, trajectories: Iterable[Trajectory]) -> tuple[Quarantined, ...]:
        """Look at graded rollouts; the tasks that are quarantined from now on because of them."""
        new: list[Quarantined] = []
        for trajectory in trajectories:
            reason = self._fault(trajectory)
            if reason and trajectory.task_id not in self.found:
                quarantined = Quarantined(
                    task_id=trajectory.task_id, reason=reason, trajectory_id=trajectory.id
                )
                self.found[trajectory.task_id] = quarantined
                new.append(quarantined)
        return tuple(new)

    def allowed(self, tasks: Sequence[TaskT]) -> tuple[TaskT, ...]:
        """The tasks that may still be trained on, in order."""
        return tuple(task for task in tasks if task.id not in self.found)

    def _fault(self, trajectory: Trajectory) -> str:
        grade, patch = trajectory.grade, trajectory.patch
        if grade is None or not grade.tests or not is_whole_patch(patch):
            return ""
        if grade.reward > 0 and not patch:
            return "a reward for no change at all"
        if _is_broken(trajectory):
            return ""
        earlier = self._rewards.setdefault((trajectory.task_id, patch), grade.reward)
        if earlier != grade.reward:
            return f"the same change earned {earlier:g} and {grade.reward:g}"
        return ""


def _is_broken(trajectory: Trajectory) -> bool:
    """Whether its reward was decided by more than its tests: that may differ between equal changes."""
    grade = trajectory.grade
    decided = grade is not None and all(outcome == "passed" for outcome in grade.tests.values())
    return grade is not None and decided != (grade.reward > 0)
