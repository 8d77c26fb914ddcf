"""An evaluation with an engine of its own may be slow: what training waits for then, and what it hears."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lego_core.resume import find_progress
from lego_core.store import RunReader, RunStatus, RunWriter
from lego_core.store.mailbox import ACKNOWLEDGED, Asked, RunStopped, post
from lego_harness.rollout import RolloutSpec
from lego_harness.types import Trajectory
from tests.support.controller_program import (
    STEPS,
    RememberingTrainer,
    ScriptedRollouts,
    example_recipe,
    make_controller,
)
from tests.support.runs import recipe


class _Waiting(ScriptedRollouts):
    """None of an evaluation ends before `may_end` is set."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()

    async def run(self, spec: RolloutSpec) -> Trajectory:
        await self.may_end.wait()
        return await super().run(spec)


class _Trainer(RememberingTrainer):
    async def save_checkpoint(self, directory: Path, state: dict[str, object]) -> None:
        await super().save_checkpoint(directory, state)
        (directory / "model.safetensors").touch()


async def _run(runs_dir: Path, evaluations: ScriptedRollouts, *, keep_checkpoints: int = 2) -> None:
    """Evaluations at 0, 3, 6, …, 18 and 20."""
    sections = example_recipe().model_dump(include={"rollout", "eval"})
    wanted = recipe(train={"steps": STEPS, "keep_checkpoints": keep_checkpoints}, **sections)
    found = sorted(runs_dir.glob("*/run.json"))
    writer = RunWriter.resume(found[0].parent) if found else RunWriter.create(runs_dir, wanted)
    with writer:
        progress = find_progress(writer.layout.root)
        controller = make_controller(wanted, writer, progress, _Trainer(), ScriptedRollouts())
        apart = replace(controller.rollouts, rollouts=evaluations)
        evaluator = replace(controller.evaluator, rollouts=apart, engine=RememberingTrainer())
        await replace(controller, evaluator=evaluator).run(progress)


async def _until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 (another program would look, too)
        await asyncio.sleep(0.001)


async def _waited_for(runs_dir: Path) -> tuple[RunReader, object]:
    """The run, once its trainer waits for an evaluation, and whose."""

    def stage() -> object:
        return next((e for e in reader.events() if e.fields.get("stage") == "evaluate"), None)

    await _until(lambda: list(runs_dir.glob("*/run.json")))
    reader = RunReader(next(runs_dir.glob("*/run.json")).parent)
    await _until(stage)
    return reader, next(e.fields["step"] for e in reader.events() if e.fields.get("stage") == "evaluate")


def _committed(reader: RunReader) -> list[int]:
    return [int(path.name) for path in reader.layout.committed()]


async def test_training_waits_where_more_evaluations_are_behind_than_checkpoints_are_kept(
    tmp_path: Path,
) -> None:
    evaluations = _Waiting()
    running = asyncio.create_task(_run(tmp_path, evaluations))
    reader, step = await _waited_for(tmp_path)
    assert (step, reader.steps()[-1].step) == (0, 6)  # those of 0, 3 and 6 have no result
    assert _committed(reader) == [3, 5, 6]
    evaluations.may_end.set()
    await running
    assert [record.step for record in reader.heldout()] == [0, *range(3, STEPS, 3), STEPS]
    assert _committed(reader) == [STEPS - 1, STEPS]


@pytest.mark.parametrize(("keep_checkpoints", "behind"), [(2, 6), (STEPS, STEPS)])
async def test_a_stop_is_heard_while_training_waits_for_evaluations_which_a_resume_then_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_checkpoints: int, behind: int
) -> None:
    """Amid the run and behind its last step."""
    monkeypatch.setattr("lego_core.evaluation.LOOK_EVERY_S", 0.001)
    running = asyncio.create_task(_run(tmp_path, _Waiting(), keep_checkpoints=keep_checkpoints))
    reader, _ = await _waited_for(tmp_path)
    post(reader.layout.root, Asked.STOP, who="ann@host", via="cli", why="enough")
    with pytest.raises(RunStopped, match=f"stopped by ann@host behind step {behind}: enough"):
        await running
    assert reader.heldout() == ()
    await _run(tmp_path, ScriptedRollouts(), keep_checkpoints=keep_checkpoints)
    assert reader.status() is RunStatus.FINISHED
    assert [record.step for record in reader.heldout()] == [0, *range(3, STEPS, 3), STEPS]


async def test_a_run_that_is_paused_amid_its_last_evaluations_ends_when_it_may_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lego_core.evaluation.LOOK_EVERY_S", 0.001)
    monkeypatch.setattr("lego_core.boundary.LOOK_EVERY_S", 0.001)
    evaluations = _Waiting()
    running = asyncio.create_task(_run(tmp_path, evaluations, keep_checkpoints=STEPS))
    reader, _ = await _waited_for(tmp_path)
    post(reader.layout.root, Asked.PAUSE, who="ann@host", via="cli", why="")
    await _until(lambda: any(event.kind == ACKNOWLEDGED for event in reader.events()))
    evaluations.may_end.set()
    await _until(lambda: len(reader.heldout()) == 8)  # what samples already is not held up
    assert not running.done()
    post(reader.layout.root, Asked.RESUME, who="ann@host", via="cli", why="")
    await running
    assert reader.status() is RunStatus.FINISHED
