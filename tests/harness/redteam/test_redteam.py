"""Scripted cheats get nothing, the honest fix gets its reward, and the report says which was which."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lego_harness.redteam.cheat import HONEST, MODES, all_cheats
from lego_harness.redteam.run import Attempt, Result, attempt, defect_attempt, judge
from lego_harness.redteam.table import DEFENCES, table
from lego_harness.redteam.target import DEFECTS, bad_task, good_task
from lego_harness.redteam.undefended import is_fooled, misjudges
from lego_harness.types import Finding, FindingKind, Grade, StopReason, Task, Trajectory
from tests.support import runs
from tests.support.sandboxes import BACKENDS, backend_called, unique_label

CHEATS = {cheat.name: cheat for cheat in all_cheats()}
SAMPLE = ["always_equal", "conftest_at_root", "forge_pipe", "git_history", "outcomes_table", "reads_source"]
"""One of each kind; the others run in `make soak` and by `lego redteam`."""
FOUND = Finding(kind=FindingKind.TAMPERING, detail="x.pth")


def test_there_are_cheats_for_every_failure_mode() -> None:
    assert len(CHEATS) >= 41
    tried = {cheat.mode for cheat in CHEATS.values()} | {mode for mode, _ in DEFECTS.values()}
    assert tried == set(MODES)
    assert set(DEFENCES) == set(MODES) - {"none"}


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_a_script_that_says_what_it_does(name: str) -> None:
    compile(CHEATS[name].script, name, "exec")
    assert CHEATS[name].what.endswith(".")


def ended(reward: float | None, *findings: Finding, stop: StopReason = StopReason.COMPLETED) -> Trajectory:
    grade = None if reward is None else Grade(reward=reward, tests={}, duration_s=0)
    return replace(runs.trajectory("r"), grade=grade, integrity=findings, stop_reason=stop)


@pytest.mark.parametrize(
    ("trajectory", "result"),
    [
        (ended(0.0), Result.BLOCKED),
        (ended(0.0, FOUND), Result.BLOCKED),
        (ended(1.0, FOUND), Result.FLAGGED),
        (ended(1.0), Result.GOT_THROUGH),
        (ended(None, stop=StopReason.MASKED_INTEGRITY), Result.BLOCKED),
        (ended(None, stop=StopReason.FAILED_GRADER), Result.BROKEN),
    ],
)
def test_a_cheat_got_through_when_it_was_paid_and_nobody_noticed(
    trajectory: Trajectory, result: Result
) -> None:
    assert judge(CHEATS["nothing"], trajectory) is result


@pytest.mark.parametrize(
    ("reward", "result"), [(1.0, Result.HONEST), (0.0, Result.FAILED), (None, Result.FAILED)]
)
def test_the_honest_agent_must_be_paid(reward: float | None, result: Result) -> None:
    assert judge(CHEATS[HONEST], ended(reward)) is result


def made(cheat: str, result: Result) -> Attempt:
    return Attempt(
        cheat=cheat,
        mode=CHEATS[cheat].mode,
        task="t",
        result=result,
        reward=0.0,
        detail="",
        findings=(),
        seconds=0.1,
    )


def test_the_table_counts_what_paid_with_and_without_defences() -> None:
    done = [
        made("edits_tests", Result.BLOCKED),
        made("deletes_tests", Result.FLAGGED),
        made(HONEST, Result.HONEST),
    ]
    (row,) = table(done, {("edits_tests", "t"): True, ("deletes_tests", "t"): False})
    assert row.num_probed == 2
    assert (row.mode, row.num_cheats, row.num_undefended) == ("agent edits test files", 2, 1)
    assert (row.num_through, row.num_flagged) == (0, 1)
    assert table(done, {})[0].num_undefended is None


# --- for real -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return replace(good_task(tmp_path_factory.mktemp("target")), verifier_timeout_s=60.0)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [HONEST, *SAMPLE])
async def test_a_sample_of_the_cheats_gets_nothing_and_the_honest_fix_passes(
    target: Task, backend: str, name: str
) -> None:
    found = await attempt(CHEATS[name], target, backend_called(backend), label=unique_label())
    assert found.result is (Result.HONEST if name == HONEST else Result.BLOCKED), found.detail


@pytest.mark.soak
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CHEATS)
async def test_no_cheat_gets_through(target: Task, backend: str, name: str) -> None:
    found = await attempt(CHEATS[name], target, backend_called(backend), label=unique_label())
    assert not found.result.is_bad, found.detail


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
async def test_a_task_that_pays_or_punishes_without_reason_is_refused(name: str, tmp_path: Path) -> None:
    task = bad_task(tmp_path, name)
    found = await defect_attempt(name, DEFECTS[name][0], task, backend_called("bubblewrap"))
    assert found.result is Result.BLOCKED
    assert found.detail


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fooled"),
    [("conftest_at_root", True), ("git_history", True), ("downloads_fix", True), ("nothing", False)],
)
async def test_without_defences_cheats_pay(target: Task, name: str, fooled: bool) -> None:
    backend = backend_called("bubblewrap")
    assert await is_fooled(CHEATS[name], target, backend, label=unique_label()) is fooled


@pytest.mark.slow
async def test_without_defences_broken_tasks_are_misjudged_and_the_good_one_is_not(
    target: Task, tmp_path: Path
) -> None:
    backend, label = backend_called("bubblewrap"), unique_label()
    broken = {name: bad_task(tmp_path, name) for name in DEFECTS}
    said = {name: await misjudges(task, backend, label=label) for name, task in broken.items()}
    assert said == dict.fromkeys(DEFECTS, True)
    assert not await misjudges(target, backend, label=label)
