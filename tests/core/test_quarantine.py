"""Tasks whose reward means nothing leave the pool from the next step on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lego_core.rollouts.quarantine import Quarantine
from lego_harness.types import Grade, Task, Trajectory
from tests.support import runs

TASKS = [Task(id=name, path=Path(name), instruction="x") for name in ("t1", "t2", "t3")]
PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"


def rollout(task: str = "t1", reward: float | None = 1.0, patch: str = PATCH, name: str = "r") -> Trajectory:
    outcome = "passed" if reward else "failed"
    grade = None if reward is None else Grade(reward=reward, tests={"t": outcome}, duration_s=0.1)
    return replace(runs.trajectory(name), task_id=task, grade=grade, patch=patch)


def test_a_reward_for_no_change_quarantines_the_task() -> None:
    guard = Quarantine()
    (found,) = guard.observe([rollout(patch=""), rollout("t2")], step=3)
    assert (found.task_id, found.reason) == ("t1", "a reward for no change at all")
    tasks = [Task(id=name, path=Path(name), instruction="x") for name in ("t1", "t2")]
    assert [task.id for task in guard.allowed(tasks, step=3)] == ["t1", "t2"]
    assert [task.id for task in guard.allowed(tasks, step=4)] == ["t2"]


def test_the_same_change_with_two_rewards_quarantines_the_task_once() -> None:
    guard = Quarantine()
    assert guard.observe([rollout(reward=0.0)], step=1) == ()
    (found,) = guard.observe([rollout(reward=1.0), rollout(reward=1.0)], step=2)
    assert found.reason == "the same change earned 0 and 1"
    assert guard.observe([rollout(reward=0.0)], step=1) == ()


def test_other_changes_other_tasks_failures_and_cut_patches_say_nothing() -> None:
    cut = "x\n… cut at 65536 characters\n"
    unsound = replace(rollout(reward=0.0), grade=Grade(reward=0.0, tests={"t": "passed"}, duration_s=0))
    forfeit = replace(rollout(reward=0.0), grade=Grade(reward=0.0, tests={}, duration_s=0))
    seen = [
        rollout(),
        rollout("t2", 0.0),
        rollout(reward=0.0, patch=PATCH + "+c\n"),
        rollout(reward=None),
        unsound,
        forfeit,
        rollout(patch=cut),
        rollout(reward=0.0, patch=cut),
        rollout(reward=0.0, patch=""),
    ]
    assert Quarantine().observe(seen, step=1) == ()


SEEN = st.lists(
    st.tuples(
        st.builds(
            rollout,
            st.sampled_from(["t1", "t2", "t3"]),
            st.sampled_from([0.0, 1.0, None]),
            st.sampled_from(["", PATCH, PATCH + "+c\n"]),
        ),
        st.integers(1, 5),
    ),
    max_size=12,
)


@given(SEEN, st.randoms())
def test_what_is_known_before_a_step_depends_neither_on_order_nor_on_repetition_nor_on_later_steps(
    seen: list[tuple[Trajectory, int]], dice: object
) -> None:
    def known(seen: list[tuple[Trajectory, int]], before: int) -> list[str]:
        quarantine = Quarantine()
        for trajectory, step in seen:
            quarantine.observe([trajectory], step=step)
        return [task.id for task in quarantine.allowed(TASKS, step=before)]

    shuffled = seen * 2
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    for before in range(1, 7):
        assert known(shuffled, before) == known([s for s in seen if s[1] < before], before)
