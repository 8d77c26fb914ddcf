"""`lego tasks import` makes a pool of published tasks, or says of each why it cannot be taken."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lego_control.cli import main
from lego_harness.errors import UsageError
from lego_harness.sandbox.bubblewrap import BubblewrapBackend
from lego_harness.tasks.folder import load_pool, workspace_files
from lego_harness.tasks.proof import prove
from lego_harness.tasks.swebench import instance
from tests.support.repair_task import BROKEN, FIXED, write_files

OLD_TEST = "from calc import twice\n\n\ndef test_twice():\n    assert twice(4) == 8\n"
NEW_TEST = "from calc import add, twice\n\n\ndef test_twice():\n    assert twice(4) == 8\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"


def git(folder: Path, *arguments: str) -> str:
    who = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **who}
    return subprocess.run(
        ["git", *arguments], cwd=folder, env=env, capture_output=True, check=True
    ).stdout.decode("utf-8", "replace")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A project whose last commit is the fix and its test."""
    repo = tmp_path / "clones" / "owner" / "calc"
    (repo / "tests").mkdir(parents=True)
    git(repo, "init", "-q", "-b", "main")
    (repo / "calc.py").write_text(BROKEN)
    (repo / "calc_link.py").symlink_to("calc.py")
    (repo / "tests" / "test_calc.py").write_text(OLD_TEST)
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "base")
    git(repo, "tag", "v1.0")
    (repo / "calc.py").write_text(FIXED)
    (repo / "tests" / "test_calc.py").write_text(NEW_TEST)
    git(repo, "commit", "-qam", "the fix")
    return repo


def row(clone: Path, **changed: Any) -> dict[str, Any]:
    """As a set has it: lists in a string, columns of its own."""
    return {
        "instance_id": "owner__calc-1",
        "repo": "owner/calc",
        "base_commit": git(clone, "rev-parse", "v1.0").strip(),
        "problem_statement": "add subtracts",
        "patch": git(clone, "diff", "v1.0", "main", "--", "calc.py"),
        "test_patch": git(clone, "diff", "v1.0", "main", "--", "tests"),
        "FAIL_TO_PASS": '["tests/test_calc.py::test_add"]',
        "PASS_TO_PASS": '["tests/test_calc.py::test_twice"]',
        "version": "1.0",
        **changed,
    }


def imported(tmp_path: Path, rows: list[Any], *more: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code, and import.json where the pool is there."""
    source, out = tmp_path / "set.jsonl", tmp_path / "pool"
    source.write_text("".join(f"{json.dumps(one)}\n" for one in rows))
    flags = more or ("--clones", str(tmp_path / "clones"))
    code = main(["tasks", "import", str(source), "--out", str(out), *flags])
    return code, json.loads((out / "import.json").read_text())["tasks"] if out.exists() else []


async def test_an_instance_becomes_a_task_that_holds_and_shows_nothing_of_its_fix(
    tmp_path: Path, clone: Path
) -> None:
    before = git(clone, "count-objects", "-v")
    (task,) = taken(tmp_path, row(clone, docker_image=None))
    assert task.instruction == "add subtracts"
    files = workspace_files(task)
    assert files["calc.py"] == files["calc_link.py"] == BROKEN.encode()
    assert files["tests/test_calc.py"] == OLD_TEST.encode()
    assert git(task.workspace, "rev-list", "--all", "--count").strip() == "1"
    assert git(task.workspace, "describe", "--tags").strip() == "v1.0"
    assert "a + b" not in git(task.workspace, "cat-file", "--batch-all-objects", "--batch")
    assert git(clone, "count-objects", "-v") == before
    (proof,) = await prove([task], BubblewrapBackend())
    assert proof.holds, proof.reason


def taken(tmp_path: Path, one: dict[str, Any]) -> tuple[Any, ...]:
    code, told = imported(tmp_path, [one])
    assert (code, told) == (0, [{"task": "owner__calc-1", "taken": True, "said": ""}])
    return load_pool(tmp_path / "pool")


def test_nothing_that_a_clone_configures_is_run(tmp_path: Path, clone: Path) -> None:
    one, program = row(clone), tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/marker\nexit 1\n")
    program.chmod(0o755)
    blob = git(clone, "rev-parse", "v1.0:calc.py").strip()
    (clone / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for key, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(clone),
        "remote.origin.uploadpack": str(program),
        "core.fsmonitor": str(program),
        "log.showSignature": "true",
        "gpg.program": str(program),
    }.items():
        git(clone, "config", key, value)
    code, _ = imported(tmp_path, [one])
    assert code == 2
    assert not (tmp_path / "marker").exists()


def test_an_image_that_is_named_is_asked_for(tmp_path: Path, clone: Path) -> None:
    (task,) = taken(tmp_path, row(clone, docker_image='x/"y":1'))
    assert task.surroundings.image == 'x/"y":1'


def test_tests_that_cannot_be_run_are_told_of(tmp_path: Path, clone: Path) -> None:
    names = ["tests/test_calc.py::test_twice", "docs/guide.rst::guide.rst"]
    code, told = imported(tmp_path, [row(clone, PASS_TO_PASS=names)])
    assert code == 0
    assert told[0]["said"] == "1 of PASS_TO_PASS are not below tests/ and decide nothing"
    listed = json.loads((tmp_path / "pool" / "owner__calc-1" / "tests" / "config.json").read_text())
    assert listed == {
        "FAIL_TO_PASS": ["test_calc.py::test_add"],
        "PASS_TO_PASS": ["test_calc.py::test_twice"],
    }


def test_every_refused_instance_has_its_reason_and_the_others_are_taken(tmp_path: Path, clone: Path) -> None:
    garbage = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-gone\n+here\n"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"instance_id": "../../etc"}, "instance_id: "),
        ({"repo": "owner/.."}, "repo: "),
        ({"repo": "owner/other"}, "no clone of owner/other in "),
        ({"base_commit": "--help"}, "base_commit: "),
        ({"base_commit": "0" * 40}, "git read-tree"),
        ({"patch": garbage}, "patch does not apply to "),
        ({"test_patch": garbage}, "test_patch does not apply to "),
        (
            {"test_patch": git(clone, "diff", "v1.0", "main")},
            "test_patch changes calc.py, tests/test_calc.py, expected",
        ),
        ({"FAIL_TO_PASS": []}, "FAIL_TO_PASS: "),
        (
            {"FAIL_TO_PASS": ["test_add (calc.Tests)"]},
            "FAIL_TO_PASS: test_add (calc.Tests) is not a pytest name",
        ),
        ({"problem_statement": ""}, "problem_statement: "),
    ]
    code, told = imported(tmp_path, [row(clone), *(row(clone, **changed) for changed, _ in wrong)])
    assert code == 1
    assert [one["taken"] for one in told] == [True] + [False] * len(wrong)
    for one, (_, said) in zip(told[1:], wrong, strict=True):
        assert one["said"].startswith(said), one
    assert [task.id for task in load_pool(tmp_path / "pool")] == ["owner__calc-1"]


def test_an_instance_that_is_there_twice_is_taken_once(tmp_path: Path, clone: Path) -> None:
    code, told = imported(tmp_path, [row(clone), row(clone)])
    assert code == 1
    assert told[1]["said"].startswith("line 2 has the instance_id of another")


def test_where_nothing_can_be_taken_there_is_no_pool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(tmp_path, [{"instance_id": "x"}, [1], None]) == (2, [])
    said = capsys.readouterr()
    assert "none of 3 tasks can be taken" in said.err
    assert "line 2: row: Input should be" in said.out
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".pool")]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("set.jsonl", '{"a": ', "expected JSON Lines or a JSON list"),
        ("set.json", "[" * 100_000, "expected JSON Lines or a JSON list"),
        ("set.parquet", "PAR1", "convert other tables to JSON Lines"),
    ],
)
def test_a_source_that_cannot_be_read_says_what_is_expected(
    tmp_path: Path, name: str, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    out = ["--out", str(tmp_path / "pool"), "--clones", str(tmp_path)]
    assert main(["tasks", "import", str(tmp_path / name), *out]) == 2
    assert said in capsys.readouterr().err


def test_harbor_folders_are_copied_where_they_can_be_graded_here(tmp_path: Path) -> None:
    write_files(tmp_path / "harbor" / "good")
    write_files(tmp_path / "harbor" / "gpu", **{"task.toml": "[environment]\ngpus = 1\n"})
    write_files(tmp_path / "harbor" / "shell", **{"tests/test_hidden.py": None, "tests/test.sh": "true\n"})
    code = main(["tasks", "import", str(tmp_path / "harbor"), "--out", str(tmp_path / "pool")])
    told = json.loads((tmp_path / "pool" / "import.json").read_text())["tasks"]
    assert code == 1
    assert [task.id for task in load_pool(tmp_path / "pool")] == ["good"]
    assert {one["task"]: one["taken"] for one in told} == {"good": True, "gpu": False, "shell": False}
    assert "sandboxes have no GPU" in told[1]["said"]
    assert "expected hidden tests" in told[2]["said"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
COLUMNS = ("instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch", "FAIL_TO_PASS")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(JSON | st.fixed_dictionaries(dict.fromkeys(COLUMNS, JSON)))
def test_whatever_a_row_is_it_is_an_instance_or_a_usage_error(anything: Any) -> None:
    wanted = None
    with contextlib.suppress(UsageError):
        wanted = instance(anything)
    assert wanted is None or "/" not in wanted.instance_id
    assert wanted is None or not {".", "..", ""} & set(wanted.repo.split("/"))
