"""The watchdog stops a collapsed run behind a checkpoint, when it was told to beforehand; nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lego_core.config import Recipe
from lego_core.health import watchdog
from lego_core.health.drop import onset
from lego_core.health.findings import Verdict
from lego_core.health.of_run import diagnose_run
from lego_core.health.policy import set_policy
from lego_core.health.series import read_series
from lego_core.resume import find_progress
from lego_core.store import RunReader, RunWriter
from lego_core.store.mailbox import Asked, RunStopped, post
from lego_harness.rollout import RolloutSpec
from lego_harness.types import Grade, Trajectory
from tests.support.controller_program import RememberingTrainer, make_controller
from tests.support.runs import recipe, step, trajectory

COLLAPSE = 15


class CollapsingRollouts:
    """Half of them solve their task, none from step 15 on."""

    async def run(self, spec: RolloutSpec) -> Trajectory:
        number, rollout = int(spec.id[1:6]), int(spec.id.rpartition("r")[2])
        is_training = spec.id.startswith("s")
        reward = float(rollout % 2 == 0 and not (is_training and number >= COLLAPSE))
        return replace(
            trajectory(spec.id, task_id=spec.task.id, epoch=spec.epoch),
            grade=Grade(reward=reward, tests={}, duration_s=0.0),
        )


def wanted(**policy: Any) -> Recipe:
    return recipe(
        train={"steps": 40, "checkpoint_every": 7},
        rollout={"group_size": 4, "groups_per_step": 4},
        eval={"num_tasks": 6},
        watchdog=policy,
    )


async def train(runs_dir: Path, asked: Recipe) -> RunReader:
    found = sorted(runs_dir.glob("*/run.json"))
    writer = RunWriter.resume(found[0].parent) if found else RunWriter.create(runs_dir, asked)
    trainer = RememberingTrainer()
    with writer:
        progress = find_progress(writer.layout.root)
        controller = make_controller(asked, writer, progress, trainer, CollapsingRollouts())
        await controller.run(progress)
    return RunReader(writer.layout.root)


def reader_of(runs_dir: Path) -> RunReader:
    (info,) = runs_dir.glob("*/run.json")
    return RunReader(info.parent)


async def test_a_collapsed_run_is_stopped_within_ten_steps_behind_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(RunStopped) as stop:
        await train(tmp_path, wanted(action="stop"))
    reader = reader_of(tmp_path)
    last = reader.steps()[-1].step
    started = onset(read_series(reader).values("reward"))
    assert started == COLLAPSE - 1  # an index: the steps count from one
    assert 0 < last - COLLAPSE <= 10
    assert stop.value.exit_code == 4
    assert f"behind step {last}" in str(stop.value)
    assert reader.layout.committed()[-1].name == f"{last:05d}"
    assert diagnose_run(reader).verdict is Verdict.COLLAPSED


async def test_a_policy_that_warns_lets_it_go_on_and_says_so(tmp_path: Path) -> None:
    reader = await train(tmp_path, wanted(action="warn"))
    assert reader.steps()[-1].step == 40
    raised = [e.fields for e in reader.events() if e.kind == watchdog.ALERT]
    assert ("raised", "zero_variance", "no_signal", COLLAPSE) in [
        (f["state"], f["metric"], f["detector"], f["since"]) for f in raised
    ]
    beats = [e.fields["step"] for e in reader.events() if e.kind == watchdog.HEARTBEAT]
    assert beats == list(range(1, 41))


async def test_a_policy_that_is_set_while_the_run_goes_on_holds_and_survives_a_resume(tmp_path: Path) -> None:
    asked = wanted(action="warn")
    writer = RunWriter.create(tmp_path, asked)
    writer.close("interrupted")
    policy = asked.watchdog.model_copy(update={"action": "stop"})
    set_policy(writer.layout.root, policy, who="ann@host", via="mcp", why="it looks bad")
    post(
        writer.layout.root, Asked.WATCH, who="x", via="mcp", why="", fields={"policy": {"action": "explode"}}
    )
    with pytest.raises(RunStopped, match="stopped by the watchdog"):
        await train(tmp_path, asked)


async def test_a_stopped_run_that_is_resumed_gets_its_grace_and_is_stopped_again(tmp_path: Path) -> None:
    asked = wanted(action="stop", grace_steps=5)
    with pytest.raises(RunStopped):
        await train(tmp_path, asked)
    first = reader_of(tmp_path).steps()[-1].step
    with pytest.raises(RunStopped):
        await train(tmp_path, asked)
    assert reader_of(tmp_path).steps()[-1].step == first + 1 + 5


def test_a_fault_of_the_watchdog_is_an_event_and_never_the_end_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, dict[str, Any]]] = []

    class Told:
        def event(self, kind: str, **fields: Any) -> None:
            told.append((kind, fields))

    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(watchdog, "diagnose", broken)
    dog = watchdog.Watchdog(Told(), tmp_path, wanted(action="stop").watchdog)
    assert dog.after_step(step(1)) == ""
    assert told == [(watchdog.FAILED, {"step": 1, "error": "ZeroDivisionError: planted"})]


def test_a_watchdog_that_has_stopped_looking_is_seen_from_outside(tmp_path: Path) -> None:
    writer = RunWriter.create(tmp_path, wanted())
    for number in range(1, 9):
        writer.append_step(step(number, reward_mean=0.4 + 0.01 * (number % 3)))
        if number <= 5:
            writer.event(watchdog.HEARTBEAT, step=number)
    diagnosis = diagnose_run(RunReader(writer.layout.root))
    writer.close("finished")
    assert [(f.metric, f.since) for f in diagnosis.findings] == [("watchdog", 6)]
    assert diagnosis.verdict is Verdict.WATCH
