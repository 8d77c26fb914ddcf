"""The generated pool: reproducible, unseen where it says so, and told apart by its tests."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from lego_harness.tasks.folder import load_pool, workspace_files
from lego_harness.tasks.synth import CASES, generate, write_pool
from lego_harness.tasks.synth_words import HELDOUT, OPERATIONS, TRAIN


def _tree(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_the_same_seed_writes_the_same_bytes_and_another_does_not(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_pool(tmp_path / name, num_train=8, num_heldout=8, seed=seed)
    assert _tree(tmp_path / "a") == _tree(tmp_path / "b")
    assert _tree(tmp_path / "a") != _tree(tmp_path / "c")


def test_a_written_pool_loads_with_its_splits(tmp_path: Path) -> None:
    write_pool(tmp_path, num_train=5, num_heldout=3, seed=0)
    pool = load_pool(tmp_path)
    assert [task.split for task in pool] == ["heldout"] * 3 + ["train"] * 5
    assert all(len(workspace_files(task)) == 1 for task in pool)


@pytest.mark.parametrize("field", ["verbs", "nouns", "files", "arguments", "frames"])
def test_the_splits_share_no_name_and_no_sentence(field: str) -> None:
    assert set(getattr(TRAIN, field)).isdisjoint(getattr(HELDOUT, field))


@pytest.mark.parametrize("words", [TRAIN, HELDOUT], ids=["train", "heldout"])
def test_every_sentence_names_the_operation(words) -> None:
    assert all(frame.count("{word}") == 1 for frame in words.frames)


def test_the_cases_tell_all_operations_apart() -> None:
    for left, right in CASES:
        assert len({left + right, left - right, left * right, left // right}) == len(OPERATIONS)


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_a_task_is_broken_by_one_operator_and_operations_are_balanced(split: str) -> None:
    tasks = list(itertools.islice(generate(split, seed=4), 80))
    for task in tasks:
        assert task.initial != task.wanted
        before, after = f" {task.initial.operator} ", f" {task.wanted.operator} "
        assert task.source.count(before) == 1
        assert task.source.replace(before, after) == task.solved
    assert all(sum(task.wanted == op for task in tasks) == 20 for op in OPERATIONS)


@pytest.mark.parametrize("is_solved", [False, True])
def test_hidden_tests_pass_with_the_solution_only(tmp_path: Path, is_solved: bool) -> None:
    (folder,) = write_pool(tmp_path, num_train=1, num_heldout=0, seed=0)
    workspace = folder / "environment" / "repo"
    if is_solved:
        subprocess.run(["bash", str(folder / "solution" / "solve.sh")], cwd=workspace, check=True)
    verdict = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder / "tests")],
        cwd=workspace,
        capture_output=True,
        check=False,
    )
    assert (verdict.returncode == 0) is is_solved
