"""A run with few checkpoints is resumed with everything that it has recorded behind the last of them."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from lego_core.resume import find_progress
from lego_core.store import RunReader, RunWriter
from lego_core.store.json_records import to_json
from lego_core.types import TrainMetrics
from lego_harness.rollout import RolloutSpec
from lego_harness.types import Trajectory
from tests.support import controller_program
from tests.support.controller_program import STEPS, RememberingTrainer, ScriptedRollouts, run
from tests.support.runs import recipe, step


class _BreakingOff(ScriptedRollouts):
    def __init__(self, left: int) -> None:
        self._left = left

    async def run(self, spec: RolloutSpec) -> Trajectory:
        self._left -= 1
        if self._left < 0:
            raise asyncio.CancelledError
        return await super().run(spec)


def _reader(runs_dir: Path) -> RunReader:
    (info,) = runs_dir.glob("*/run.json")
    return RunReader(info.parent)


def _make_checkpoints_rare(monkeypatch: pytest.MonkeyPatch, *, eval_every: int) -> None:
    sections = controller_program.example_recipe().model_dump(include={"rollout", "eval"})
    sections["eval"]["every"] = eval_every
    rarely = recipe(train={"steps": STEPS, "checkpoint_every": 5}, **sections)
    monkeypatch.setattr(controller_program, "example_recipe", lambda _: rarely)


async def test_an_evaluation_that_has_its_result_is_not_made_again_on_the_way_back_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make_checkpoints_rare(monkeypatch, eval_every=3)
    with pytest.raises(asyncio.CancelledError):
        await run(tmp_path, _BreakingOff(70))  # in step 4: evaluated at 3
    shutil.rmtree(_reader(tmp_path).layout.checkpoint(3))  # as we advise where one cannot be read
    await run(tmp_path)
    reader = _reader(tmp_path)
    assert [record.step for record in reader.heldout()] == [0, *range(3, STEPS, 3), STEPS]
    counts = Counter(entry.id for entry in reader.trajectory_index())
    assert set(counts.values()) == {1}


async def test_a_run_that_ends_amid_an_evaluation_goes_on_with_the_version_that_was_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trained again, the version would be another one of the same number."""
    _make_checkpoints_rare(monkeypatch, eval_every=3)
    with pytest.raises(asyncio.CancelledError):
        await run(tmp_path, _BreakingOff(6 + 3 * 16 + 3), max_staleness=0)  # 3 of 6 rollouts at step 3
    reader = _reader(tmp_path)
    assert [record.step for record in reader.heldout()] == [0]
    assert [path.name for path in reader.layout.committed()] == ["00003"]
    trainer = await run(tmp_path)
    assert trainer.published[:2] == [3, 4]
    assert [record.step for record in reader.heldout()][:2] == [0, 3]


async def test_a_resume_discards_the_steps_behind_its_checkpoint_before_it_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make_checkpoints_rare(monkeypatch, eval_every=0)
    with pytest.raises(asyncio.CancelledError):
        await run(tmp_path, _BreakingOff(150))
    (info,) = tmp_path.glob("*/run.json")
    assert len(RunReader(info.parent).steps()) > 5

    async def break_off(*_: object) -> TrainMetrics:
        raise asyncio.CancelledError

    monkeypatch.setattr(RememberingTrainer, "train_step", break_off)
    with pytest.raises(asyncio.CancelledError):
        await run(tmp_path)
    assert [record.step for record in RunReader(info.parent).steps()] == list(range(1, 6))


def _recorded(tmp_path: Path, *losses: tuple[int, float]) -> RunWriter:
    """Lines of (step, loss), and a checkpoint of step 2 whose record has the loss 7."""
    writer = RunWriter.create(tmp_path, recipe())
    for number, loss in losses:
        writer.append_step(step(number, loss=loss))
    untimed = step(2, loss=7.0, seconds={"total": 1.0}, engine_idle=None)
    checkpoint = writer.layout.checkpoint(2)
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").write_bytes(json.dumps({"step_record": to_json(untimed)}).encode())
    return writer


@pytest.mark.parametrize(
    ("lines", "loss", "seconds"),
    [
        ([(1, 1.0)], 7.0, 1.0),  # killed between checkpoint and line
        ([(1, 1.0), (2, 2.0), (3, 3.0), (1, 1.0)], 7.0, 1.0),
        ([(1, 1.0), (2, 2.0)], 7.0, 1.0),  # the line is of an attempt that was thrown away
        ([(1, 1.0), (2, 7.0), (3, 3.0)], 7.0, 3.5),  # the line stands, what follows is thrown away
        ([(1, 1.0), (2, 7.0)], None, None),
    ],
)
def test_a_resume_ends_the_file_with_the_record_of_its_checkpoint(
    tmp_path: Path, lines: list[tuple[int, float]], loss: float | None, seconds: float | None
) -> None:
    with _recorded(tmp_path, *lines) as writer:
        record = find_progress(writer.layout.root).missing_record
    assert (record and record.loss, record and record.seconds["total"]) == (loss, seconds)
