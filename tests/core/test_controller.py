"""The loop commits each step once, whatever interrupts it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lego_core.errors import CheckpointError
from lego_core.resume import require_same_order
from lego_core.rollouts.recorded import group_attempts
from lego_core.store import RunReader
from lego_core.types import Sample, TrainMetrics
from lego_harness.errors import UsageError
from lego_harness.types import StopReason
from tests.support import controller_program
from tests.support.controller_program import STEPS, RememberingTrainer, example_recipe, example_source, run
from tests.support.runs import trajectory

NUM_KILLS = 12


async def test_every_sampled_token_of_a_run_is_trained_or_masked_for_a_named_reason(tmp_path: Path) -> None:
    await run(tmp_path)
    _assert_accounts_balance(_reader(tmp_path))


async def test_versions_are_published_in_order_once_per_step(tmp_path: Path) -> None:
    trainer = await run(tmp_path)
    assert trainer.published == list(range(1, STEPS + 1))


class _Restarted(RememberingTrainer):
    async def pids(self) -> dict[str, int]:
        return {"the engine": 1 + (len(self.published) >= 3)}


async def test_an_engine_that_came_back_as_another_process_is_an_event_of_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_program, "RememberingTrainer", _Restarted)
    await run(tmp_path)
    told = [event.fields for event in _reader(tmp_path).events() if event.kind == "engine_restarted"]
    assert told == [{"step": 3, "engine": "the engine"}]


async def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    await run(tmp_path)
    assert [path.name for path in _reader(tmp_path).layout.committed()] == [
        f"{STEPS - 1:05d}",
        f"{STEPS:05d}",
    ]


async def test_a_finished_run_that_is_resumed_does_nothing(tmp_path: Path) -> None:
    await run(tmp_path)
    before = _reader(tmp_path).trajectory_index()
    await run(tmp_path)
    assert _reader(tmp_path).trajectory_index() == before


@pytest.mark.long
@pytest.mark.parametrize("max_staleness", [0, 2])
def test_no_rollout_is_trained_twice_or_lost_when_the_process_is_killed_at_random_points(
    tmp_path: Path, max_staleness: int
) -> None:
    afters = [random.randint(1, 1_500) for _ in range(NUM_KILLS)]
    kills = sum(_start_and_kill(tmp_path, max_staleness, after_bytes=after) for after in afters)
    assert kills >= 10, "the run ended before it was killed often enough to say anything"
    _start(tmp_path, max_staleness).wait()
    reader = _reader(tmp_path)
    _assert_accounts_balance(reader)
    trained = json.loads((reader.layout.checkpoint(STEPS) / "state.json").read_text())["trained"]
    assert Counter(trained).most_common(1)[0][1] == 1
    assert trained == [rollout for step in reader.steps() for rollout in step.trained_rollouts]


def test_a_failed_attempt_stays_in_the_account_when_the_rollout_is_done_again(tmp_path: Path) -> None:
    first = trajectory("s00001.g00.r0", stop_reason=StopReason.FAILED_ENGINE, grade=None, error="gone")
    again = trajectory("s00001.g00.r0~1")
    assert group_attempts([first, again]) == {"s00001.g00.r0": (first, again)}


class _SlowDisk(RememberingTrainer):
    """The checkpoint of step 1 is written once step 2 is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.is_trained = asyncio.Event()

    async def train_step(self, samples: Sequence[Sample], step: int) -> TrainMetrics:
        metrics = await super().train_step(samples, step)
        if step == 2:
            self.is_trained.set()
        return metrics

    async def save_checkpoint(self, directory: Path, state: dict[str, Any]) -> None:
        if directory.name == "00001":
            await self.is_trained.wait()
        await super().save_checkpoint(directory, state)


async def test_a_checkpoint_is_written_while_the_next_step_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_program, "RememberingTrainer", _SlowDisk)
    await run(tmp_path)
    told = [(e.kind, e.fields.get("stage"), e.fields.get("step")) for e in _reader(tmp_path).events()]
    assert told.index(("checkpoint", None, 1)) > told.index(("stage", "train", 2))
    assert [step for kind, _, step in told if kind == "checkpoint"] == list(range(1, STEPS + 1))


class _FullDisk(RememberingTrainer):
    async def save_checkpoint(self, directory: Path, state: dict[str, Any]) -> None:
        if directory.name == "00005":
            raise CheckpointError("no space")
        await super().save_checkpoint(directory, state)


async def test_a_checkpoint_that_cannot_be_written_ends_the_run_which_goes_on_from_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_program, "RememberingTrainer", _FullDisk)
    with pytest.raises(CheckpointError, match="no space"):
        await run(tmp_path)
    monkeypatch.undo()
    assert _reader(tmp_path).layout.committed()[-1].name == "00004"
    trainer = await run(tmp_path)
    _assert_accounts_balance(_reader(tmp_path))
    assert Counter(trainer.trained).most_common(1)[0][1] == 1


def _start(runs_dir: Path, max_staleness: int) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-m", "tests.support.controller_program", str(runs_dir), str(max_staleness)]
    return subprocess.Popen(program)


def _start_and_kill(runs_dir: Path, max_staleness: int, *, after_bytes: int) -> bool:
    """Kill the run once it has recorded `after_bytes` more; False when it ended before."""
    target = _recorded(runs_dir) + after_bytes
    process = _start(runs_dir, max_staleness)
    while _recorded(runs_dir) < target and process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.001)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def _recorded(runs_dir: Path) -> int:
    return sum(path.stat().st_size for path in runs_dir.rglob("*.jsonl"))


def _reader(runs_dir: Path) -> RunReader:
    (info,) = runs_dir.glob("*/run.json")
    return RunReader(info.parent)


def _assert_accounts_balance(reader: RunReader) -> None:
    """Every rollout of the source has a trajectory, every step a record, every token its place."""
    index = reader.trajectory_index()
    steps = {record.step: record for record in reader.steps()}
    source = example_source(example_recipe())
    assert sorted(steps) == list(range(1, STEPS + 1))
    assert {record.step for record in reader.heldout()} == {0, *range(3, STEPS, 3), STEPS}
    for number, record in steps.items():
        entries = [entry for entry in index if entry.step == number]
        wanted = {rollout.id for group in source.step(number) for rollout in group.rollouts}
        assert {entry.id.partition("~")[0] for entry in entries} == wanted
        assert record.sampled == sum(entry.sampled for entry in entries)
        assert record.sampled == record.trained + sum(record.masked.values())
        assert record.rollouts == len(entries)


async def test_a_checkpoint_says_how_far_the_data_was_read(tmp_path: Path) -> None:
    await run(tmp_path)
    state = json.loads((_reader(tmp_path).layout.checkpoint(STEPS - 1) / "state.json").read_text())
    assert state["data_order"]["groups_taken"] == 4 * (STEPS - 1)


async def test_a_resume_with_other_tasks_is_refused_before_it_repeats_or_skips_some(tmp_path: Path) -> None:
    await run(tmp_path)
    checkpoint = _reader(tmp_path).layout.checkpoint(STEPS)
    source = example_source(example_recipe())
    require_same_order(checkpoint, source.order(STEPS))
    other = replace(source, train=source.train[::-1])
    with pytest.raises(UsageError, match=r"tasks was .* expected the same order of data"):
        require_same_order(checkpoint, other.order(STEPS))
