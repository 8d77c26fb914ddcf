"""A task that pays for nothing is trained on no longer, in one run or in pieces of one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from lego_core.store import RunReader
from lego_harness.errors import SetupError
from lego_harness.rollout import RolloutSpec
from lego_harness.types import Grade, StopReason, Trajectory
from tests.support import controller_program
from tests.support.controller_program import STEPS, run
from tests.support.runs import recipe, trajectory

PATCH = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


class Faulty:
    """Task 3 pays for no change, task 5 as it likes from its second epoch on; breaks off when told to."""

    def __init__(self, *, bad: tuple[str, ...] = ("train-3",), break_after: int | None = None) -> None:
        self._bad, self._left = bad, break_after

    async def run(self, spec: RolloutSpec) -> Trajectory:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise asyncio.CancelledError
        done = trajectory(spec.id, task_id=spec.task.id, epoch=spec.epoch)
        patch, reward = f"{PATCH}{spec.task.id}", 1.0
        if spec.task.id in self._bad:
            patch = ""
        if spec.task.id == "train-5":
            reward = float(spec.epoch != 1)
        outcome = {"t": "passed" if reward else "failed"}
        return replace(done, patch=patch, grade=Grade(reward=reward, tests=outcome, duration_s=0.0))


def _reader(runs_dir: Path) -> RunReader:
    (info,) = runs_dir.glob("*/run.json")
    return RunReader(info.parent)


def _told(reader: RunReader) -> list[tuple[str, str, int]]:
    events = [event.fields for event in reader.events() if event.kind == "task_quarantined"]
    return [(e["task_id"], e["reason"], e["step"]) for e in events]


def _drawn(reader: RunReader) -> dict[str, str]:
    return {e.id: e.task for e in reader.trajectory_index() if e.step is not None}


@pytest.mark.parametrize("max_staleness", [0, 2])
async def test_a_quarantined_task_has_one_event_with_its_reason_and_is_not_drawn_again(
    tmp_path: Path, max_staleness: int
) -> None:
    await run(tmp_path, Faulty(), max_staleness=max_staleness)
    reader = _reader(tmp_path)
    told = {task: (reason, step) for task, reason, step in _told(reader)}
    assert [reason for reason, _ in told.values()] == [
        "a reward for no change at all",
        "the same change earned 0 and 1",
    ]
    assert list(told) == ["train-3", "train-5"]
    for entry in reader.trajectory_index():
        if entry.step is not None and entry.task in told:
            begun_before = told[entry.task][1] + max_staleness
            assert entry.step <= begun_before
    assert len(_drawn(reader)) == STEPS * 16


@pytest.mark.parametrize("max_staleness", [0, 2])
async def test_a_resumed_run_draws_what_an_undisturbed_one_draws_and_tells_nothing_twice(
    tmp_path: Path, max_staleness: int
) -> None:
    await run(tmp_path / "whole", Faulty(), max_staleness=max_staleness)
    for break_after in (40, 35, 35):
        with pytest.raises(asyncio.CancelledError):
            await run(tmp_path / "pieces", Faulty(break_after=break_after), max_staleness=max_staleness)
    await run(tmp_path / "pieces", Faulty(), max_staleness=max_staleness)
    whole, pieces = _reader(tmp_path / "whole"), _reader(tmp_path / "pieces")
    assert _drawn(pieces) == _drawn(whole)
    assert _told(pieces) == _told(whole)


async def test_a_pool_of_which_nothing_is_left_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    every = tuple(f"train-{i}" for i in range(10))
    with pytest.raises(SetupError, match="all 10 training tasks are quarantined before step"):
        await run(tmp_path, Faulty(bad=every))


class FailingOnce(Faulty):
    """One rollout of step 2 fails; done again it is paid for no change."""

    async def run(self, spec: RolloutSpec) -> Trajectory:
        done = await super().run(spec)
        if spec.id == "s00002.g00.r0":
            return replace(done, stop_reason=StopReason.FAILED_HARNESS, error="scripted", grade=None)
        return replace(done, patch="") if spec.id == "s00002.g00.r0~1" else done


@pytest.mark.parametrize("max_staleness", [0, 1])
async def test_a_rollout_that_is_done_again_does_not_change_what_the_steps_behind_it_had_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_staleness: int
) -> None:
    """Their rollouts are stored already, and are those of the tasks that were drawn then."""
    rollout = controller_program.example_recipe(max_staleness).rollout.model_dump()
    rarely = recipe(
        train={"steps": STEPS, "checkpoint_every": 5}, rollout=rollout, eval={"num_tasks": 6, "every": 0}
    )
    monkeypatch.setattr(controller_program, "example_recipe", lambda _: rarely)
    await run(tmp_path / "whole", FailingOnce(bad=()))
    with pytest.raises(asyncio.CancelledError):
        await run(tmp_path / "pieces", FailingOnce(bad=(), break_after=70))
    await run(tmp_path / "pieces", FailingOnce(bad=()))
    whole, pieces = _drawn(_reader(tmp_path / "whole")), _drawn(_reader(tmp_path / "pieces"))
    assert pieces.keys() - whole.keys() == {"s00002.g00.r0~1"}
    assert {name: task for name, task in pieces.items() if "~" not in name} == whole
