"""Task folders: what is read, and what is refused in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from lego_harness.errors import UsageError
from lego_harness.tasks.folder import load_pool, load_task, workspace_files
from tests.support.repair_task import BROKEN, repair_task, write_files


def test_a_task_is_its_folder(tmp_path: Path) -> None:
    task = repair_task(tmp_path / "tiny")
    assert (task.id, task.split, task.tags) == ("tiny", "train", ("tiny",))
    assert task.instruction == "Repair calc.py: add must add."
    assert (task.agent_timeout_s, task.verifier_timeout_s) == (120.0, 20.0)
    assert workspace_files(task)["calc.py"] == BROKEN.encode()
    assert set(workspace_files(task)) == {"calc.py", "tests/test_visible.py"}


def test_harbors_own_keys_are_accepted(tmp_path: Path) -> None:
    toml = """
version = "1.0"
[metadata]
author_name = "somebody"
difficulty = "easy"
split = "heldout"
[agent]
timeout_sec = 30
[verifier]
timeout_sec = 5.5
[environment]
build_timeout_sec = 600.0
docker_image = "x"
cpus = 2
"""
    task = repair_task(tmp_path / "t", **{"task.toml": toml})
    assert (task.split, task.agent_timeout_s, task.verifier_timeout_s) == ("heldout", 30.0, 5.5)


def test_a_pool_is_every_task_below_a_folder_by_name(tmp_path: Path) -> None:
    for name in ("b", "a", "deeper/c"):
        write_files(tmp_path / name)
    assert [task.id for task in load_pool(tmp_path)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("task.toml", None, "task.toml: No such file"),
        ("task.toml", "[agent\n", "task.toml: not valid TOML"),
        ("task.toml", "[agent]\ntimeout_sec = -1\n", "task.toml: agent.timeout_sec: .*got -1"),
        (
            "task.toml",
            "[metadata]\nsplit = 'dev'\n",
            "task.toml: metadata.split: .*'train' or 'heldout'.*got 'dev'",
        ),
        ("instruction.md", None, "instruction.md"),
        ("instruction.md", " \n", "instruction.md: the instruction is empty"),
        ("tests/test_hidden.py", None, "tests: expected hidden tests"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, file: str, text: str | None, complaint: str) -> None:
    write_files(tmp_path / "t", **{file: text})
    with pytest.raises(UsageError, match=complaint):
        load_task(tmp_path / "t")


def test_an_empty_workspace_is_refused(tmp_path: Path) -> None:
    gone = {"environment/repo/calc.py": None, "environment/repo/tests/test_visible.py": None}
    with pytest.raises(UsageError, match="environment/repo: expected the files the agent starts with"):
        repair_task(tmp_path / "t", **gone)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "t")
    (folder / "environment/repo/inner.py").symlink_to("calc.py")
    assert load_task(folder)
    (folder / "environment/repo/secret").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match=r"repo/secret: links out"):
        load_task(folder)


def test_two_tasks_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("x/same", "y/same"):
        write_files(tmp_path / name)
    with pytest.raises(UsageError, match="task id 'same' twice"):
        load_pool(tmp_path)


def test_a_pool_without_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"found no task\.toml"):
        load_pool(tmp_path)
    with pytest.raises(UsageError, match="expected a folder"):
        load_pool(tmp_path / "nowhere")


def test_a_task_inside_a_task_is_no_task_of_the_pool_and_a_linked_one_is(tmp_path: Path) -> None:
    write_files(tmp_path / "pool" / "a", **{"environment/repo/inner/task.toml": "[metadata]\n"})
    write_files(tmp_path / "elsewhere")
    (tmp_path / "pool" / "b").symlink_to(tmp_path / "elsewhere")
    assert [task.id for task in load_pool(tmp_path / "pool")] == ["a", "b"]
