"""The whole loop, real in every part: rollouts, two engines, the trainer and evaluations side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lego_core.store import RunReader
from tests.support.small_run import lego, quickstart, show

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

STEPS = 3
ENOUGH = 100
"""Tokens: of a few that are all but certain, a correlation is one of rounding errors."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    changes = {
        "rollout__max_staleness": 1,
        "engine__replicas": 2,
        "engine__weight_sync": "delta",
        "eval__engines": 1,
        "train__steps": STEPS,
    }
    done = lego(*quickstart(harness="mini-swe-agent", sandbox="bubblewrap", **changes), folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def shown(finished: Path) -> dict[str, Any]:
    return show(finished)


def test_rollouts_run_ahead_and_no_token_is_staler_than_the_bound(shown: dict[str, Any]) -> None:
    lags = [set(step["lag"]) for step in shown["steps"]]
    assert all(lag <= {"0", "1"} for lag in lags)
    assert any("1" in lag for lag in lags), "no rollout began before the step before it was published"


def test_every_rollout_is_in_the_account_of_its_step(shown: dict[str, Any]) -> None:
    reader = RunReader(Path(shown["run"]))
    for step in shown["steps"]:
        entries = [entry for entry in reader.trajectory_index() if entry.step == step["step"]]
        assert step["sampled"] == sum(entry.sampled for entry in entries)
        assert step["sampled"] == step["trained"] + sum(step["masked"].values())
        assert step["sampled"] == sum(step["lag"].values())


def test_idle_shares_are_of_the_steps_own_time(shown: dict[str, Any]) -> None:
    for step in shown["steps"]:
        seconds = dict(step["seconds"])
        total = seconds.pop("total")
        assert sum(seconds.values()) == pytest.approx(total)
        assert step["trainer_idle"] == pytest.approx(1 - (seconds["train"] + seconds["checkpoint"]) / total)
        assert 0 <= step["engine_idle"] < 1, "the probe of each weight sync alone keeps the engines busy"


def test_routes_are_replayed_and_the_version_at_hand_agrees(shown: dict[str, Any]) -> None:
    trained = [step for step in RunReader(Path(shown["run"])).steps() if step.trained]
    assert [step.routing_coverage for step in trained] == [1.0] * len(trained)
    at_hand = [step for step in trained if "0" in step.by_lag]
    assert at_hand, "no step trained a token of the version that it began with"
    for step in at_hand:
        assert step.by_lag["0"].mean_abs_dlogp <= 1e-5
    correlated = [step.pearson_r for step in at_hand if step.by_lag["0"].tokens >= ENOUGH]
    assert correlated
    assert all(r is not None and r >= 0.999 for r in correlated)


def test_an_evaluation_beside_training_is_sampled_by_the_version_it_names(shown: dict[str, Any]) -> None:
    reader = RunReader(Path(shown["run"]))
    assert [record["step"] for record in shown["heldout"]] == [0, STEPS]
    for entry in reader.trajectory_index():
        if entry.step is None:
            turns = reader.load(entry).turns
            assert {version for turn in turns for version in turn.token_versions} <= {int(entry.id[1:6])}
