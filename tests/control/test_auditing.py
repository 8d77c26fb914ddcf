"""`lego tasks audit` says which tasks cannot be trusted with rewards, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lego_control.cli import main
from lego_harness.tasks.folder import load_pool
from tests.support.repair_task import FIXED, TESTS, write_files
from tests.support.runs import write_run

SHAKY = """

def test_shaky():
    import os
    assert os.urandom(1)[0] >= 128 or not os.urandom(1)[0] % 2
"""


def audited(pool: Path, capsys: pytest.CaptureFixture[str], repeat: int = 2) -> tuple[int, dict[str, str]]:
    code = main(["tasks", "audit", str(pool), "--repeat", str(repeat), "--sandbox", "bubblewrap", "--json"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return code, {one["task_id"]: "; ".join(one["faults"]) for one in found}


@pytest.mark.slow
def test_sound_solved_unsolvable_and_repeated_tasks_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path / "a-sound")
    write_files(tmp_path / "b-again")
    write_files(tmp_path / "c-solved", **{"environment/repo/calc.py": FIXED})
    write_files(tmp_path / "d-unsolved", **{"solution/solve.sh": "true\n", "instruction.md": "Another."})
    code, faults = audited(tmp_path, capsys)
    assert code == 1
    assert faults["a-sound"] == ""
    assert faults["b-again"] == "the same as a-sound"
    assert "untouched earned 1 in 2 of 2 gradings, expected 0" in faults["c-solved"]
    assert "reference solution does not pass" in faults["d-unsolved"]


def test_a_pool_of_sound_tasks_passes_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path / "good")
    assert main(["tasks", "audit", str(tmp_path), "--repeat", "1", "--sandbox", "bubblewrap"]) == 0
    assert "1 of 1 tasks are sound, 1 gradings of each tree" in capsys.readouterr().out


def test_what_a_person_said_of_a_task_in_review_is_a_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool, run = tmp_path / "pool", write_run(tmp_path / "runs")
    write_files(pool / "ops-0001")
    label = ["--label", "s00001.g00.r0", "--as", "broken_grader", "--note", "accepts\neverything"]
    assert main(["review", str(run), *label]) == 0
    command = ["tasks", "audit", str(pool), "--repeat", "1", "--sandbox", "bubblewrap", "--json"]
    capsys.readouterr()
    assert main([*command, "--run", str(run)]) == 1
    (fault,) = json.loads(capsys.readouterr().out)["faults"]
    assert fault.startswith("labelled broken_grader by ")
    assert fault.endswith(": accepts everything")
    assert main([*command, "--run", str(tmp_path / "none")]) == 2


def test_sound_tasks_become_a_pool_and_a_command_that_was_killed_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool, out, left = tmp_path / "pool", tmp_path / "out", tmp_path / ".out.unfinished"
    write_files(pool / "a-sound")
    write_files(pool / "b-again")
    command = ["tasks", "audit", str(pool), "--repeat", "1", "--sandbox", "bubblewrap", "--out"]
    assert main([*command, str(out)]) == 1
    assert [task.id for task in load_pool(out)] == ["a-sound"]
    told = json.loads((out / "audit.json").read_text())
    assert [one["faults"] for one in told["tasks"]] == [[], ["the same as a-sound"]]
    left.mkdir()
    (left / "audit.json").write_text(json.dumps({**told, "tasks": told["tasks"][:1]}))
    (out / "audit.json").unlink()
    out.rename(tmp_path / "old")
    capsys.readouterr()
    assert main([*command, str(out)]) == 1
    assert "a-sound " not in (said := capsys.readouterr().out)
    assert "1 of 2 tasks are sound" in said
    assert json.loads((out / "audit.json").read_text())["tasks"][1] == told["tasks"][1]


def test_no_pool_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "audit", str(tmp_path / "none"), "--sandbox", "bubblewrap"]) == 2
    assert "expected a folder that holds task folders" in capsys.readouterr().err


@pytest.mark.soak
def test_a_test_that_passes_now_and_then_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path / "shaky", **{"tests/test_hidden.py": TESTS + SHAKY})
    code, faults = audited(tmp_path, capsys, repeat=12)
    assert code == 1
    assert faults["shaky"]
