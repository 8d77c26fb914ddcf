"""`lego tasks select` keeps the tasks that a run solved sometimes, and says why of every task."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from lego_control.cli import main
from lego_core.store import RunWriter
from lego_harness.tasks.folder import load_pool
from lego_harness.types import Grade
from tests.support.repair_task import FILES, write_files
from tests.support.runs import recipe, trajectory

SOLVED = {"never": 0, "seldom": 1, "half": 4, "often": 6, "always": 8}
"""Of eight graded rollouts."""


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    folder = tmp_path / "pool"
    for name in (*SOLVED, "unmeasured"):
        write_files(folder / name)
    write_files(folder / "held", **{"task.toml": FILES["task.toml"].replace("train", "heldout")})
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with RunWriter.create(tmp_path / "runs", recipe()) as writer:
        for task, solved in SOLVED.items():
            for number in range(8):
                grade = Grade(reward=float(number < solved), tests={}, duration_s=0.0)
                done = trajectory(f"s00001.{task}.r{number}", task_id=task, grade=grade)
                writer.append_trajectory(done, step=1)
            failed = replace(trajectory(f"s00001.{task}.r8", task_id=task), grade=None)
            writer.append_trajectory(failed, step=1)
        evaluated = trajectory("e00000.t0.r0", task_id="unmeasured")
        writer.append_trajectory(evaluated, step=None)
    return writer.layout.root


def select(pool: Path, run: Path, out: Path, *more: str) -> int:
    return main(["tasks", "select", str(pool), "--run", str(run), "--out", str(out), *more])


def test_what_is_solved_sometimes_and_what_is_held_out_is_kept_with_a_reason_for_each(
    pool: Path, run: Path, tmp_path: Path
) -> None:
    assert select(pool, run, tmp_path / "new") == 0
    assert [task.id for task in load_pool(tmp_path / "new")] == ["half", "held", "often", "seldom"]
    told = json.loads((tmp_path / "new" / "selection.json").read_text())["tasks"]
    assert {one["task_id"]: (one["solved"], one["graded"], one["reason"]) for one in told} == {
        "never": (0, 8, "solved too seldom"),
        "seldom": (1, 8, "in the band"),
        "half": (4, 8, "in the band"),
        "often": (6, 8, "in the band"),
        "always": (8, 8, "solved too often"),
        "unmeasured": (0, 0, "not measured"),
        "held": (0, 0, "held out"),
    }


def test_what_a_person_excludes_in_review_is_left_and_a_newer_label_takes_it_back(
    pool: Path, run: Path, tmp_path: Path
) -> None:
    for rollout, said in (
        ("s00001.half.r0", ["--as", "broken_grader"]),
        ("s00001.often.r0", ["--as", "odd", "--exclude"]),
        ("s00001.seldom.r0", ["--as", "broken_task"]),
        ("s00001.seldom.r0", ["--as", "fine"]),
    ):
        assert main(["review", str(run), "--label", rollout, *said]) == 0
    assert select(pool, run, tmp_path / "new") == 0
    assert [task.id for task in load_pool(tmp_path / "new")] == ["held", "seldom"]
    told = json.loads((tmp_path / "new" / "selection.json").read_text())["tasks"]
    assert {one["task_id"] for one in told if one["reason"] == "excluded in review"} == {"half", "often"}


def test_a_size_keeps_those_nearest_to_one_half(pool: Path, run: Path, tmp_path: Path) -> None:
    assert select(pool, run, tmp_path / "new", "--size", "2") == 0
    assert [task.id for task in load_pool(tmp_path / "new")] == ["half", "held", "often"]


def test_tags_choose_with_a_run_and_without_one(pool: Path, run: Path, tmp_path: Path) -> None:
    for name in ("half", "always"):
        write_files(pool / name, **{"task.toml": FILES["task.toml"].replace("tiny", "toolz")})
    assert select(pool, run, tmp_path / "both", "--tag", "toolz") == 0
    assert [task.id for task in load_pool(tmp_path / "both")] == ["half", "held"]
    alone = ["tasks", "select", str(pool), "--tag", "toolz", "--tag", "other"]
    assert main([*alone, "--out", str(tmp_path / "alone")]) == 0
    assert [task.id for task in load_pool(tmp_path / "alone")] == ["always", "half", "held"]
    assert main([*alone, "--size", "1", "--out", str(tmp_path / "one")]) == 0
    told = json.loads((tmp_path / "one" / "selection.json").read_text())
    assert told["tags"] == ["toolz", "other"]
    counts = Counter(one["reason"] for one in told["tasks"])
    assert counts == {"has none of the tags": 4, "held out": 1, "taken": 1, "beyond the size": 1}


def test_nothing_to_select_by_is_said(pool: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "select", str(pool), "--out", str(tmp_path / "new")]) == 2
    assert "expected --run, --tag or --size" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--low", "0.95", "--high", "0.99"], "no training task of .* is left"),
        (["--low", "0.9", "--high", "0.1"], "expected a band"),
        (["--run", "nowhere"], "is no run"),
    ],
)
def test_what_selects_nothing_is_one_line_and_leaves_no_folder(
    pool: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    assert select(pool, run, tmp_path / "new", *more) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(said, error)
    assert not (tmp_path / "new").exists()


def test_an_existing_folder_is_never_written_over(pool: Path, run: Path) -> None:
    before = sorted(path.name for path in pool.iterdir())
    assert select(pool, run, pool) == 2
    assert select(pool, run, Path()) == 2
    assert sorted(path.name for path in pool.iterdir()) == before


def test_a_task_that_its_copy_could_not_be_is_named(
    pool: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = pool / "half" / "environment" / "repo"
    (repo / "same.py").symlink_to(repo / "calc.py")
    assert select(pool, run, tmp_path / "new") == 2
    assert "same.py: an absolute link leads out of a copy" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
