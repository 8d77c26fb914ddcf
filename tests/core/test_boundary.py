"""A run stops, pauses and goes on at a step boundary, behind a checkpoint, because somebody asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from lego_core.store import RunReader, RunStatus
from lego_core.store.mailbox import ACKNOWLEDGED, Asked, RunStopped, post
from tests.support.controller_program import STEPS, run
from tests.support.runs import recipe


def ask(run_dir: Path, asked: Asked) -> str:
    return post(run_dir, asked, who="ann@host", via="cli", why="the curve\nis flat").id


async def begun(runs_dir: Path) -> RunReader:
    """The run, once it has committed a step."""
    await until(lambda: list(runs_dir.glob("*/run.json")))
    reader = RunReader(next(runs_dir.glob("*/run.json")).parent)
    await until(reader.layout.committed)
    return reader


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 (another program would look, too)
        await asyncio.sleep(0.001)


def answers(reader: RunReader) -> list[tuple[str, str]]:
    return [
        (event.fields["request"], event.fields["outcome"])
        for event in reader.events()
        if event.kind == ACKNOWLEDGED
    ]


async def stopped(running: asyncio.Task[object]) -> str:
    with pytest.raises(RunStopped) as stop:
        await running
    return str(stop.value)


async def test_a_stop_is_acknowledged_behind_a_committed_step_and_the_run_goes_on_from_there(
    tmp_path: Path,
) -> None:
    running = asyncio.create_task(run(tmp_path))
    reader = await begun(tmp_path)
    asked = ask(reader.layout.root, Asked.STOP)
    assert "stopped by ann@host behind step" in await stopped(running)
    assert answers(reader) == [(asked, "stopping")]
    last = reader.events()[-1]
    assert reader.status() is RunStatus.INTERRUPTED
    assert last.fields["reason"].endswith(": the curve is flat")
    assert reader.layout.committed()[-1].name == f"{reader.steps()[-1].step:05d}"
    await run(tmp_path)  # the old request does not stop the resumed run
    assert reader.status() is RunStatus.FINISHED
    assert reader.steps()[-1].step == STEPS


async def test_two_people_stopping_at_once_are_both_answered(tmp_path: Path) -> None:
    running = asyncio.create_task(run(tmp_path))
    reader = await begun(tmp_path)
    both = {ask(reader.layout.root, Asked.STOP), ask(reader.layout.root, Asked.STOP)}
    await stopped(running)
    assert {request for request, _ in answers(reader)} == both


async def test_a_paused_run_waits_until_it_is_told_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lego_core.boundary.LOOK_EVERY_S", 0.001)
    running = asyncio.create_task(run(tmp_path))
    reader = await begun(tmp_path)
    ask(reader.layout.root, Asked.PAUSE)
    await until(lambda: answers(reader))
    done = len(reader.steps())
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(reader.steps()) == done
    assert reader.status() is RunStatus.RUNNING
    ask(reader.layout.root, Asked.RESUME)
    await running
    assert [outcome for _, outcome in answers(reader)] == ["paused", "running"]
    assert reader.status() is RunStatus.FINISHED


async def test_where_checkpoints_are_rare_a_stop_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rare = recipe(
        train={"steps": STEPS, "checkpoint_every": STEPS},
        rollout={"group_size": 4, "groups_per_step": 4},
        eval={"num_tasks": 6},
    )
    monkeypatch.setattr("tests.support.controller_program.example_recipe", lambda _: rare)
    running = asyncio.create_task(run(tmp_path))
    await until(lambda: list(tmp_path.glob("*/run.json")))
    reader = RunReader(next(tmp_path.glob("*/run.json")).parent)
    await until(reader.steps)
    ask(reader.layout.root, Asked.STOP)
    await stopped(running)
    assert [path.name for path in reader.layout.committed()] == [f"{reader.steps()[-1].step:05d}"]
    assert reader.steps()[-1].step < STEPS
