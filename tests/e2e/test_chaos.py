"""Parts of a real asynchronous run are killed at random: it ends whole, and its accounts are those of a quiet one."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from lego_core.batching.samples import make_batch
from lego_core.rollouts.source import GroupSpec, RolloutSource
from lego_core.store import RunReader
from lego_core.store.layout import IndexEntry
from lego_core.types import RolloutGroup
from lego_harness.tasks.folder import load_pool
from tests.support.processes import command, descendants
from tests.support.small_run import TRAJECTORIES, num_lines, quickstart, run_dir, start, wait_for

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]

STEPS, MOST_STARTS = 60, 120
PARTS = {
    "engine": "EngineCore",
    "worker": "ray::RolloutWorker",
    "trainer": "ray::TrainerActor",
    "Ray head": "gcs_server",
    "core": "-m lego_core.launch",
}
ALLOWED = {0, 3, 128 + signal.SIGKILL}
"""Finished; ended with one line and resumable; the core itself was killed."""


def test_a_run_whose_parts_are_killed_trains_every_rollout_once(tmp_path: Path) -> None:
    shape = {
        "train__steps": STEPS,
        "rollout__groups_per_step": 2,
        "rollout__group_size": 4,
        "rollout__max_staleness": 1,
        "eval__num_tasks": 4,
    }
    arguments = quickstart(harness="mini-swe-agent", sandbox="bubblewrap", **shape)
    killed: Counter[str] = Counter()
    for _ in range(MOST_STARTS):
        program = start(arguments, tmp_path)
        with suppress(AssertionError):  # it has ended; how, is seen below
            while True:  # an engine that was killed comes back
                wait_for(program, tmp_path, TRAJECTORIES, random.randint(1, 40))
                killed.update(_kill_one(program.pid, killed))
        _, stderr = program.communicate()
        assert program.returncode in ALLOWED, stderr
        assert program.returncode != 3 or "Traceback" not in stderr
        if program.returncode == 0:
            break
        arguments = ["train", "--resume", str(run_dir(tmp_path))]
    assert killed.keys() == PARTS.keys(), f"not every kind of part was killed: {killed}"
    _assert_accounts(RunReader(run_dir(tmp_path)))


def _kill_one(pid: int, killed: Counter[str]) -> list[str]:
    """One of the parts that were killed least, of those there are at the moment."""
    family = descendants(pid)
    for part in sorted(PARTS, key=lambda part: (killed[part], random.random())):
        for victim in [child for child in family if PARTS[part] in command(child)][:1]:
            os.kill(victim, signal.SIGKILL)
            return [part]
    return []


def _assert_accounts(reader: RunReader) -> None:
    """Every rollout the source asks for is there, and in the account of its step, and trained at most once: each
    step's account is what a run that was left alone would have drawn up over the same trajectories."""
    recipe = reader.recipe()
    pool = load_pool(reader.layout.root / "tasks")
    train = [task for task in pool if task.split == "train"][: recipe.tasks.num_train]
    source = RolloutSource(recipe=recipe, train=train, heldout=train)
    index = reader.trajectory_index()
    assert [record.step for record in reader.steps()] == list(range(1, STEPS + 1))
    for record in reader.steps():
        entries = [entry for entry in index if entry.step == record.step]
        wanted = {rollout.id for group in source.step(record.step) for rollout in group.rollouts}
        assert {entry.id.partition("~")[0] for entry in entries} == wanted
        assert record.sampled == sum(entry.sampled for entry in entries)
        assert record.sampled == record.trained + sum(record.masked.values())
        batch = make_batch([*_groups(reader, source.step(record.step), entries)], advantage_std=True)
        for name in ("sampled", "trained", "masked", "dropped", "zero_variance_groups"):
            assert getattr(record, name) == getattr(batch, name), (record.step, name)
        assert set(record.trained_rollouts) == {sample.rollout_id for sample in batch.samples}
    trained = Counter(rollout for record in reader.steps() for rollout in record.trained_rollouts)
    assert set(trained.values()) <= {1}
    assert num_lines(reader.layout.root.parents[1], TRAJECTORIES) == len(index)


def _groups(
    reader: RunReader, specs: Sequence[GroupSpec], entries: Sequence[IndexEntry]
) -> Iterator[RolloutGroup]:
    for spec in specs:
        names = {rollout.id for rollout in spec.rollouts}
        mine = tuple(reader.load(entry) for entry in entries if entry.id.partition("~")[0] in names)
        yield RolloutGroup(id=spec.id, task_id=spec.task.id, trajectories=mine)
