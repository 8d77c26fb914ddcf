"""What is left when a real run is interrupted: nothing running, and a run that goes on where it stood."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from lego_core.store import RunReader
from tests.support.processes import Watch, command, descendants, topmost
from tests.support.small_run import ANYTHING, TRAJECTORIES, lego, quickstart, run_dir, start, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
SOAK = [pytest.mark.soak, pytest.mark.timeout(0)]

SMALLER = {"train__steps": 2, "rollout__groups_per_step": 2, "rollout__group_size": 4, "eval__num_tasks": 4}
ENDED_S = 240.0
"""Putting everything away takes some seconds, and many times that on a loaded machine."""


@pytest.mark.parametrize(
    ("num_kills", "max_staleness"),
    [(2, 1), *(pytest.param(12, staleness, marks=SOAK) for staleness in (0, 1))],
)
def test_a_killed_run_that_is_resumed_trains_every_rollout_once(
    tmp_path: Path, num_kills: int, max_staleness: int
) -> None:
    enough = {"train__steps": max(2, num_kills), "rollout__max_staleness": max_staleness}
    changes = SMALLER | enough
    arguments = quickstart(harness="mini-swe-agent", sandbox="bubblewrap", **changes)
    for _ in range(num_kills):
        core = start(arguments, tmp_path)
        _kill_after(core, tmp_path, more=random.randint(1, 12))
        arguments = ["train", "--resume", str(run_dir(tmp_path))]
    done = lego(*arguments, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    _assert_each_rollout_trained_once(RunReader(run_dir(tmp_path)))


def test_a_killed_engine_is_started_again_and_the_run_goes_on_to_its_end(tmp_path: Path) -> None:
    program = start(quickstart(harness="mini-swe-agent", sandbox="bubblewrap", **SMALLER), tmp_path)
    wait_for(program, tmp_path, TRAJECTORIES, 1)
    os.kill(topmost(descendants(program.pid), "EngineCore"), signal.SIGKILL)
    stdout, stderr = program.communicate(timeout=900)
    assert program.returncode == 0, stdout + stderr
    _assert_each_rollout_trained_once(RunReader(run_dir(tmp_path)))


@pytest.mark.soak
def test_an_engine_that_is_killed_again_and_again_ends_the_run_with_one_line_and_nothing_left(
    tmp_path: Path,
) -> None:
    program = start(quickstart(harness="mini-swe-agent", sandbox="bubblewrap", **SMALLER), tmp_path)
    wait_for(program, tmp_path, TRAJECTORIES, 1)
    watch = Watch(descendants(program.pid))
    while program.poll() is None:
        for pid in descendants(program.pid):
            if "ray::EngineActor" in command(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(0.2)
    _, stderr = program.communicate(timeout=120)
    assert program.returncode == 3
    assert "engine" in stderr.splitlines()[-1]
    assert "Traceback" not in stderr
    assert watch.survivors(within_s=ENDED_S) == []


def test_a_run_whose_ray_loses_its_head_ends_with_one_line_and_nothing_left(tmp_path: Path) -> None:
    program = start(quickstart(harness="mini-swe-agent", sandbox="bubblewrap", **SMALLER), tmp_path)
    wait_for(program, tmp_path, TRAJECTORIES, 1)
    family = descendants(program.pid)
    watch = Watch(family)
    os.kill(topmost(family, "gcs_server"), signal.SIGKILL)
    _, stderr = program.communicate(timeout=ENDED_S)
    assert program.returncode == 3
    assert "the head of the Ray cluster" in stderr.splitlines()[-1]
    assert "Traceback" not in stderr
    assert watch.survivors(within_s=ENDED_S) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.soak)])
def test_an_interrupt_stops_everything_and_says_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    program = start(quickstart(harness="mini-swe-agent", sandbox="bubblewrap", **SMALLER), tmp_path)
    wait_for(program, tmp_path, TRAJECTORIES, 1)
    watch = Watch(descendants(program.pid))
    program.send_signal(number)
    program.communicate(timeout=ENDED_S)
    assert program.returncode == 130
    assert RunReader(run_dir(tmp_path)).status() == "interrupted"
    assert watch.survivors(within_s=ENDED_S) == []


def _kill_after(program: subprocess.Popen[str], folder: Path, *, more: int) -> None:
    """SIGKILL to the training process itself, as the kernel's memory killer would."""
    wait_for(program, folder, ANYTHING, more)
    family = descendants(program.pid)
    watch = Watch(family)
    os.kill(topmost(family, "-m lego_core.launch"), signal.SIGKILL)
    program.communicate(timeout=ENDED_S)
    assert program.returncode == 128 + signal.SIGKILL
    assert watch.survivors(within_s=ENDED_S) == []


def _assert_each_rollout_trained_once(reader: RunReader) -> None:
    trained = Counter(rollout for record in reader.steps() for rollout in record.trained_rollouts)
    assert set(trained.values()) <= {1}
    assert [record.step for record in reader.steps()] == list(range(1, reader.recipe().train.steps + 1))
    for record in reader.steps():
        entries = [entry for entry in reader.trajectory_index() if entry.step == record.step]
        assert len({entry.id.partition("~")[0] for entry in entries}) == 8
        assert record.sampled == sum(entry.sampled for entry in entries)
        assert record.sampled == record.trained + sum(record.masked.values())
