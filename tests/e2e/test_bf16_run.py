"""An engine in bf16 beside a trainer in fp32, twenty asynchronous steps long: Tables 3 and 7 of a run of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from lego_core.store import RunReader
from tests.support.small_run import lego, quickstart, show

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]

STEPS, ENOUGH = 24, 100
CHANGES = {
    "engine__dtype": "bfloat16",
    "rollout__max_staleness": 1,
    "rollout__groups_per_step": 4,
    "rollout__group_size": 8,
    "tasks__num_train": 64,
    "train__steps": STEPS,
    "train__learning_rate": 5e-4,  # learns so slowly that groups stay mixed
}


def test_with_replay_every_step_agrees_and_the_report_says_by_how_much(tmp_path: Path) -> None:
    done = lego(*quickstart(harness="mini-swe-agent", sandbox="bubblewrap", **CHANGES), folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    reader = RunReader(Path(show(tmp_path)["run"]))
    compared = [step for step in reader.steps() if "0" in step.by_lag and step.by_lag["0"].tokens >= ENOUGH]
    assert len(compared) >= 20, "too few steps trained tokens of the weights that they began with"
    assert [step.step for step in compared if step.pearson_r is None or step.pearson_r < 0.999] == []
    assert {step.routing_coverage for step in compared} == {1.0}
    tables = lego("report", str(reader.layout.root), "--only", "table3,table7", folder=tmp_path)
    assert "r of logp" in tables.stdout
    assert "expert overlap" in tables.stdout
