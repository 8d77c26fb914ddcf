"""A run with few checkpoints is resumed with everything that it has recorded behind the last of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from lego_core.store import RunReader
from lego_harness.rollout import RolloutSpec
from lego_harness.types import Trajectory
from tests.support import controller_program
from tests.support.controller_program import STEPS, ScriptedRollouts, run
from tests.support.runs import recipe


class _BreakingOff(ScriptedRollouts):
    def __init__(self, left: int) -> None:
        self._left = left

    async def run(self, spec: RolloutSpec) -> Trajectory:
        self._left -= 1
        if self._left < 0:
            raise asyncio.CancelledError
        return await super().run(spec)


async def test_an_evaluation_that_has_its_result_is_not_made_again_on_the_way_back_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections = controller_program.example_recipe().model_dump(include={"rollout", "eval"})
    rarely = recipe(train={"steps": STEPS, "checkpoint_every": 5}, **sections)
    monkeypatch.setattr(controller_program, "example_recipe", lambda _: rarely)
    with pytest.raises(asyncio.CancelledError):
        await run(tmp_path, _BreakingOff(70))  # in step 4: evaluated at 3, no checkpoint yet
    await run(tmp_path)
    (info,) = tmp_path.glob("*/run.json")
    reader = RunReader(info.parent)
    assert [record.step for record in reader.heldout()] == [0, *range(3, STEPS, 3), STEPS]
    counts = Counter(entry.id for entry in reader.trajectory_index())
    assert set(counts.values()) == {1}
