"""What an operator is told of a run at a glance is what its diagnosis says, evaluations included."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lego_control.runs import Runs
from lego_control.tools.status import run_status
from lego_control.verdict import run_diagnose
from lego_core.health.of_run import diagnose_run
from lego_core.health.watchdog import HEARTBEAT
from lego_core.pass_rates import pass_rates
from lego_core.store import RunReader, RunWriter
from lego_core.store.json_records import encode
from lego_tui.feed.run import RunFeed
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


def test_a_watchdog_that_has_stopped_looking_is_told_by_every_face(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEGO_INDEX", str(tmp_path / "index"))
    with RunWriter.create(tmp_path / "runs", recipe()) as writer:
        for number in range(1, 13):
            if number <= 9:
                writer.event(HEARTBEAT, step=number, verdict="healthy", action="stop", stops=False)
            writer.append_step(step(number, reward_mean=0.5 + 0.01 * (number % 3)))
        run = writer.layout.root
    runs, feed = Runs(tmp_path / "runs"), RunFeed(run)
    feed.poll()
    told, now = diagnose_run(RunReader(run)), run_diagnose(runs, run.name)
    assert "watchdog/silent" in {f.key for f in told.findings}
    assert {f"{s.metric}/{s.detector}" for s in now.signals} == {f.key for f in told.findings}
    assert {f.key for f in feed.diagnosis.findings} == {f.key for f in told.findings}
    assert run_status(runs, run.name).verdict == now.verdict == told.verdict.value == "watch"
    assert now.data_quality == list(told.data_quality)
    assert run_diagnose(runs, run.name, as_of_step=9).verdict == "healthy"
    runs.get(run.name).index.close()


@pytest.mark.parametrize(("attempts", "is_told"), [(1, True), (8, False)])
def test_attempts_at_one_task_are_no_independent_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempts: int, is_told: bool
) -> None:
    """From 48 of 96 to 24: five standard deviations of 96 tasks, less than two of 12 with 8 attempts each."""
    monkeypatch.setenv("LEGO_INDEX", str(tmp_path / "index"))
    with RunWriter.create(tmp_path / "runs", recipe()) as writer:
        for number in range(1, 13):
            writer.append_step(step(number, reward_mean=0.5))
        for number, rate in enumerate([0.5, 0.5, 0.25, 0.25]):
            rates = pass_rates([[i < rate * attempts for i in range(attempts)]] * (96 // attempts), attempts)
            writer.append_heldout(replace(heldout(number, rate), n=96, rates=rates))
        run = writer.layout.root
    runs, feed = Runs(tmp_path / "runs"), RunFeed(run)
    feed.poll()
    told = (
        {(f.metric, f.detector) for f in diagnose_run(RunReader(run)).findings},
        {(f.metric, f.detector) for f in feed.diagnosis.findings},
        {(s.metric, s.detector) for s in run_diagnose(runs, run.name).signals},
    )
    assert [("heldout", "fallen") in keys for keys in told] == [is_told] * 3
    runs.get(run.name).index.close()


def test_what_is_remembered_of_a_run_is_what_reading_it_anew_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps come one by one; then the run goes on from a checkpoint, and its later steps are others."""
    monkeypatch.setenv("LEGO_INDEX", str(tmp_path / "index"))
    with RunWriter.create(tmp_path / "runs", recipe()) as writer:
        root = writer.layout.root
    runs = Runs(root.parent)
    for number in (*range(1, 13), 9, *range(10, 31)):
        reward = 0.0 if number > 12 else 0.6
        with (root / "steps.jsonl").open("ab") as file:
            file.write(encode(step(number, reward_mean=reward, entropy=0.1 * len(str(number)))) + b"\n")
        assert diagnosed(runs, root.name) == diagnosed(Runs(root.parent), root.name)
    told = run_diagnose(runs, root.name)
    assert (told.verdict, told.as_of_step) == ("collapsed", 30)
    assert told.paper_stat[0].n == 30
    runs.get(root.name).index.close()


def diagnosed(runs: Runs, name: str) -> dict[str, Any]:
    told = run_diagnose(runs, name).model_dump(exclude={"stale_s"})
    runs.get(name).index.close()
    return told
