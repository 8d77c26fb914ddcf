"""What an operator is told of a run at a glance is what its diagnosis says, evaluations included."""

from __future__ import annotations

from pathlib import Path

import pytest

from lego_control.runs import Runs
from lego_control.tools.status import run_status
from lego_control.verdict import run_diagnose
from lego_core.store import RunWriter
from tests.support.runs import heldout, recipe, step


def test_an_evaluation_behind_the_last_step_counts_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEGO_INDEX", str(tmp_path / "index"))
    with RunWriter.create(tmp_path / "runs", recipe()) as writer:
        for number in range(1, 13):
            writer.append_step(step(number, reward_mean=0.05 * number))
        runs, name = Runs(tmp_path / "runs"), writer.layout.root.name
        before = run_status(runs, name).verdict
        for number, rate in enumerate([0.9, 0.9, 0.9, 0.1, 0.1]):
            writer.append_heldout(heldout(number * 3, solve_rate=rate))
        assert run_status(runs, name).verdict == run_diagnose(runs, name).verdict != before
        runs.get(name).index.close()
