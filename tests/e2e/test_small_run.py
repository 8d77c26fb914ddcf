"""The whole loop, real in every part: harness, vLLM, sandboxes, graders, trainer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lego_core.leftovers import MARK
from lego_core.store import RunReader
from lego_harness.sandbox import ownership
from tests.support.small_run import SMALL, lego, quickstart, show

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

KINDS = [
    pytest.param(("mini-swe-agent", "bubblewrap"), id="mini-swe-agent-bubblewrap"),
    pytest.param(("claude-code", "docker"), id="claude-code-docker", marks=pytest.mark.docker),
]


@pytest.fixture(scope="module", params=KINDS)
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a small quickstart has run to its end."""
    folder = tmp_path_factory.mktemp("run")
    harness, sandbox = request.param
    done = lego(*quickstart(harness=harness, sandbox=sandbox), folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def shown(finished: Path) -> dict[str, Any]:
    return show(finished)


def test_every_step_and_both_evaluations_are_there(shown: dict[str, Any]) -> None:
    assert shown["status"] == "finished"
    assert [step["policy_version"] for step in shown["steps"]] == [1, 2]
    assert [(record["step"], record["n"]) for record in shown["heldout"]] == [
        (0, 8),
        (SMALL["train.steps"], 8),
    ]


def test_trainer_and_engine_agree_on_every_step_that_trained(shown: dict[str, Any]) -> None:
    trained = [step for step in shown["steps"] if step["trained"]]
    assert trained, "no group had both outcomes in any step, expected some doubt in the warmed policy"
    for step in trained:
        assert step["pearson_r"] >= 0.999
        assert step["mean_abs_dlogp"] <= 1e-4
        assert step["routing_coverage"] == 1.0


def test_sampled_tokens_are_trained_or_masked_for_a_named_reason(
    finished: Path, shown: dict[str, Any]
) -> None:
    reader = RunReader(Path(shown["run"]))
    for step in shown["steps"]:
        stored = [reader.load(e) for e in reader.trajectory_index() if e.step == step["step"]]
        assert step["sampled"] == sum(len(turn.sampled_ids) for t in stored for turn in t.turns)
        assert step["sampled"] == step["trained"] + sum(step["masked"].values())
        assert len(stored) == SMALL["rollout.groups_per_step"] * SMALL["rollout.group_size"]


def test_what_a_branch_trains_is_what_the_engine_saw_and_sampled(shown: dict[str, Any]) -> None:
    reader = RunReader(Path(shown["run"]))
    for entry in reader.trajectory_index():
        trajectory = reader.load(entry)
        sampled = Counter(int(i) for turn in trajectory.turns for i in turn.sampled_ids)
        owned = Counter(int(i) for branch in trajectory.branches for i in branch.ids[branch.mask])
        assert sampled == owned
        for turn in trajectory.turns:
            whole = [*turn.context_ids, *turn.sampled_ids]
            assert any(list(branch.ids[: len(whole)]) == whole for branch in trajectory.branches)


def test_nothing_is_left_running(finished: Path) -> None:
    marked = [p for p in Path("/proc").glob("[0-9]*/environ") if _has_mark(p)]
    assert marked == []


def _has_mark(environ: Path) -> bool:
    try:
        value = next((e for e in environ.read_bytes().split(b"\0") if e.startswith(f"{MARK}=".encode())), b"")
    except OSError:
        return False
    return bool(value) and ownership.is_gone(value.partition(b"=")[2].decode())
