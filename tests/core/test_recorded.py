"""What is recorded of a rollout, and when, and whose it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lego_core.resume import find_progress
from lego_core.rollouts.recorded import RecordedRollouts, group_attempts
from lego_core.simulation.parts import MemoryStore
from lego_core.store import RunReader, RunWriter
from lego_harness.errors import EngineError, UsageError
from lego_harness.rollout import RolloutSpec
from lego_harness.types import StopReason, Trajectory
from tests.support.controller_program import (
    RememberingTrainer,
    ScriptedRollouts,
    example_recipe,
    example_source,
    make_controller,
)
from tests.support.runs import trajectory

PUBLISHED = 2
"""The version amid whose publish rollouts end."""


class _EndingAmidAPublish(ScriptedRollouts):
    """Those of the step behind `PUBLISHED` end while nobody knows yet whether it has arrived."""

    def __init__(self) -> None:
        self.is_publishing, self.have_ended = asyncio.Event(), asyncio.Event()
        self.ended: set[str] = set()

    async def run(self, spec: RolloutSpec) -> Trajectory:
        if not spec.id.startswith(f"s{PUBLISHED + 1:05d}"):
            return await super().run(spec)
        await self.is_publishing.wait()
        done = await super().run(spec)
        self.ended.add(spec.id)
        if len(self.ended) == 16:
            self.have_ended.set()
        return done


class _Engines(RememberingTrainer):
    def __init__(self, rollouts: _EndingAmidAPublish, *, is_whole: bool) -> None:
        super().__init__()
        self._rollouts, self._is_whole = rollouts, is_whole

    async def publish(self, weights: Path, version: int) -> None:
        if version == PUBLISHED:
            self._rollouts.is_publishing.set()
            await self._rollouts.have_ended.wait()
            for _ in range(10):  # whoever could record them now would
                await asyncio.sleep(0)
            if not self._is_whole:
                raise EngineError("the weights did not arrive whole")
        await super().publish(weights, version)


async def _run(runs_dir: Path, rollouts: _EndingAmidAPublish, *, is_whole: bool) -> None:
    wanted = example_recipe()
    with RunWriter.create(runs_dir, wanted) as writer:
        progress = find_progress(writer.layout.root)
        engines = _Engines(rollouts, is_whole=is_whole)
        await make_controller(wanted, writer, progress, engines, rollouts).run(progress)


def _recorded(runs_dir: Path) -> list[str]:
    (info,) = runs_dir.glob("*/run.json")
    return [entry.id for entry in RunReader(info.parent).trajectory_index()]


async def test_what_weights_sampled_that_the_probe_refuses_is_not_there_for_a_resume(tmp_path: Path) -> None:
    rollouts = _EndingAmidAPublish()
    with pytest.raises(EngineError, match="did not arrive whole"):
        await _run(tmp_path, rollouts, is_whole=False)
    recorded = _recorded(tmp_path)
    assert {name[:6] for name in recorded} == {"e00000", "s00001", "s00002"}
    assert rollouts.ended.isdisjoint(recorded)


async def test_what_ended_amid_a_publish_is_recorded_once_the_weights_are_proven(tmp_path: Path) -> None:
    rollouts = _EndingAmidAPublish()
    await _run(tmp_path, rollouts, is_whole=True)
    recorded = _recorded(tmp_path)
    assert len(recorded) == len(set(recorded))
    assert rollouts.ended <= set(recorded)


@pytest.mark.parametrize("stop_reason", [StopReason.COMPLETED, StopReason.FAILED_ENGINE])
async def test_a_stored_rollout_of_another_task_is_refused_and_not_trained_as_this_ones(
    stop_reason: StopReason,
) -> None:
    """Before the first checkpoint nothing else says which tasks a run was drawing from."""
    spec = example_source(example_recipe()).step(1)[0].rollouts[0]
    other = trajectory(spec.id, task_id="other", stop_reason=stop_reason)
    recorded = RecordedRollouts(
        rollouts=ScriptedRollouts(), store=MemoryStore(), stored=group_attempts([other])
    )
    with pytest.raises(UsageError, match=f"is of task 'other', expected '{spec.task.id}': .*start a new run"):
        await recorded.run([spec], step=1)
