"""`lego tasks import` makes a pool of published tasks, or says of each why it cannot be taken."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lego_control.cli import main
from lego_harness.errors import UsageError
from lego_harness.grading.patch import graded_tree
from lego_harness.sandbox.bubblewrap import BubblewrapBackend
from lego_harness.tasks.folder import load_pool, workspace_files
from lego_harness.tasks.instances import instance
from lego_harness.tasks.proof import prove
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


def test_an_image_that_is_named_is_what_the_tasks_own_is_made_from(tmp_path: Path, clone: Path) -> None:
    (task,) = taken(tmp_path, row(clone, docker_image="x.org:5000/y_z:1"))
    place = task.path / "environment"
    assert (task.surroundings.image, task.surroundings.context) == (None, place)
    assert "FROM x.org:5000/y_z:1\n" in (place / "Dockerfile").read_text()
    assert task.surroundings.setup == place / "setup.sh"


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
            "FAIL_TO_PASS: test_add (calc.Tests) is not a pytest name below tests/: unittest's own runner",
        ),
        (
            {"FAIL_TO_PASS": ["test_add"]},
            "FAIL_TO_PASS: test_add is not a pytest name below tests/, but a function without its file",
        ),
        ({"problem_statement": ""}, "problem_statement: "),
        ({"docker_image": "x\nRUN evil"}, "docker_image: got x RUN evil, expected the name of an image"),
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
        ("set.json", "[{}, ", "expected JSON Lines or a JSON list"),
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


def test_a_line_that_is_no_json_is_refused_alone(tmp_path: Path, clone: Path) -> None:
    source = tmp_path / "set.jsonl"
    lines = [b'{"a": ', b"[" * 100_000, b'"\xff"', json.dumps(row(clone)).encode(), b"9" * 5000]
    source.write_bytes(b"\n".join(lines))
    out = ["--out", str(tmp_path / "pool"), "--clones", str(tmp_path / "clones")]
    assert main(["tasks", "import", str(source), *out]) == 1
    told = json.loads((tmp_path / "pool" / "import.json").read_text())["tasks"]
    assert [(one["task"], one["taken"]) for one in told] == [
        *((f"line {number}", False) for number in (1, 2, 3)),
        ("owner__calc-1", True),
        ("line 5", False),
    ]
    assert all(
        one["said"].startswith("expected a JSON object in UTF-8: ") for one in told if not one["taken"]
    )


def test_a_row_that_no_library_can_take_is_refused_alone(
    tmp_path: Path, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = "[" * 100_000
    wrong = [
        row(clone, FAIL_TO_PASS=deep),
        row(clone, FAIL_TO_PASS='["a'),
        row(clone, instance_id=[[[[["\x1b[31m"]]]]]),
        row(clone, problem_statement="\ud800"),
        row(clone, instance_id="import.json"),
    ]
    code, told = imported(tmp_path, [*wrong, row(clone)])
    assert code == 1
    assert [one["taken"] for one in told] == [False] * len(wrong) + [True]
    assert told[0]["said"].startswith("FAIL_TO_PASS: expected a JSON list in a string: maximum recursion")
    assert told[1]["said"].startswith("FAIL_TO_PASS: expected a JSON list in a string: ")
    assert "is what a pool calls its record" in told[4]["said"]
    assert "\x1b" not in capsys.readouterr().out


def test_what_of_a_project_a_task_cannot_show_is_told(tmp_path: Path, clone: Path) -> None:
    git(clone, "checkout", "-q", "v1.0")
    (clone / "latest").symlink_to("tests")
    (clone / "again.py").symlink_to("calc_link.py")
    (clone / "tests" / "config.json").write_text("{}")
    git(clone, "add", ".")
    git(clone, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendored")
    git(clone, "commit", "-qm", "new base")
    base = git(clone, "rev-parse", "HEAD").strip()
    code, told = imported(tmp_path, [row(clone, base_commit=base)])
    assert code == 0
    assert told[0]["said"] == (
        "2 submodules or links to no file are left out, first latest; "
        "config.json of the project's tests is replaced by the lists of tests"
    )
    (task,) = load_pool(tmp_path / "pool")
    assert workspace_files(task)["again.py"] == BROKEN.encode()


def test_a_name_that_a_task_cannot_have_is_refused(tmp_path: Path, clone: Path) -> None:
    git(clone, "checkout", "-q", "v1.0")
    (clone / os.fsdecode(b"caf\xe9")).touch()
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "latin")
    base = git(clone, "rev-parse", "HEAD").strip()
    code, told = imported(tmp_path, [row(clone), row(clone, instance_id="latin", base_commit=base)])
    assert code == 1
    assert "expected names in UTF-8" in told[1]["said"]


def test_tests_in_a_folder_called_testing_are_tests_to_grading_too(tmp_path: Path, clone: Path) -> None:
    git(clone, "checkout", "-q", "v1.0")
    git(clone, "mv", "tests", "testing")
    git(clone, "commit", "-qm", "as pytest has it")
    base = git(clone, "rev-parse", "HEAD").strip()
    patch = git(clone, "diff", "v1.0", "main", "--", "tests").replace("tests/", "testing/")
    names = '["testing/test_calc.py::test_add"]'
    one = row(clone, base_commit=base, test_patch=patch, FAIL_TO_PASS=names, PASS_TO_PASS="[]")
    (task,) = taken(tmp_path, one)
    before = workspace_files(task)
    graded = graded_tree(before, {**before, "testing/test_calc.py": b"", "testing/data.txt": b""})
    assert graded.files == before


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


def hostile_links_in_a_circle(task: Path) -> str:
    (task / "environment" / "repo" / "a").symlink_to("b")
    (task / "environment" / "repo" / "b").symlink_to("a")
    return "links in a circle"


def hostile_pipe(task: Path) -> str:
    os.mkfifo(task / "environment" / "Dockerfile")
    return "is neither a file nor a folder nor a link"


def hostile_toml(task: Path) -> str:
    (task / "task.toml").write_text(f"a = {'[' * 10_000}")
    return "not valid TOML"


def hostile_key(task: Path) -> str:
    (task / "task.toml").write_text("[metadata]\ntags = '\\u001b[31m'\n".replace("'", '"'))
    return "metadata.tags: "


def hostile_record(task: Path) -> str:
    task.rename(task.with_name("import.json"))
    return "is what a pool calls its record"


def absolute_link(task: Path) -> str:
    (task / "environment" / "repo" / "same.py").symlink_to(task / "environment" / "repo" / "calc.py")
    return "an absolute link leads out of a copy"


def several_steps(task: Path) -> str:
    (task / "task.toml").write_text("[[steps]]\nname = 'one'\n")
    return "make a task of each step"


@pytest.mark.parametrize(
    "spoil",
    [
        *(hostile_links_in_a_circle, hostile_pipe, hostile_toml, hostile_key, hostile_record),
        *(absolute_link, several_steps),
    ],
)
def test_a_hostile_folder_is_refused_alone(
    tmp_path: Path, spoil: Callable[[Path], str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path / "harbor" / "good")
    write_files(tmp_path / "harbor" / "spoiled")
    said = spoil(tmp_path / "harbor" / "spoiled")
    assert main(["tasks", "import", str(tmp_path / "harbor"), "--out", str(tmp_path / "pool")]) == 1
    told = json.loads((tmp_path / "pool" / "import.json").read_text())["tasks"]
    assert [one["said"] for one in told if one["taken"]] == [""]
    assert [said in one["said"] for one in told if not one["taken"]] == [True]
    assert [task.id for task in load_pool(tmp_path / "pool")] == ["good"]
    assert "\x1b" not in capsys.readouterr().out


def test_what_is_taken_can_be_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is about tasks; a link to a file and to a folder; the pool named by where one stands."""
    task = write_files(tmp_path / "harbor" / "about", **{"environment/repo/inner/task.toml": "[metadata]\n"})
    (task / "environment" / "repo" / "same.py").symlink_to("calc.py")
    (task / "environment" / "repo" / "latest").symlink_to("inner")
    monkeypatch.chdir(task)
    assert main(["tasks", "import", ".", "--out", "../../pool"]) == 0
    told = json.loads((tmp_path / "pool" / "import.json").read_text())["tasks"]
    said = "1 links to folders show nothing, first environment/repo/latest"
    assert told == [{"task": "about", "taken": True, "said": said}]
    (loaded,) = load_pool(tmp_path / "pool")
    assert {"inner/task.toml", "same.py"} <= workspace_files(loaded).keys()
    assert main(["tasks", "import", ".", "--out", "pool"]) == 2
    assert not (task / "pool").exists()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
COLUMNS = ("instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch", "FAIL_TO_PASS")


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JSON | st.fixed_dictionaries(dict.fromkeys(COLUMNS, JSON)))
def test_whatever_a_row_is_it_is_an_instance_or_a_usage_error(anything: Any) -> None:
    wanted = None
    with contextlib.suppress(UsageError):
        wanted = instance(anything)
    assert wanted is None or "/" not in wanted.instance_id
    assert wanted is None or not {".", "..", ""} & set(wanted.repo.split("/"))


def test_a_share_of_the_instances_is_held_out_the_same_in_every_import(tmp_path: Path, clone: Path) -> None:
    one = row(clone)
    rows = [{**one, "instance_id": f"owner__calc-{number}"} for number in range(5)]

    def held(named: list[dict[str, Any]], out: str, *more: str) -> set[str]:
        source = tmp_path / f"{out}.jsonl"
        source.write_text("".join(f"{json.dumps(row)}\n" for row in named))
        flags = ["--out", str(tmp_path / out), "--clones", str(tmp_path / "clones"), *more]
        assert main(["tasks", "import", str(source), *flags]) == 0
        found = {task.id for task in load_pool(tmp_path / out) if task.split == "heldout"}
        assert set(json.loads((tmp_path / out / "import.json").read_text()).get("heldout", ())) == found
        return found

    names = {one["instance_id"] for one in rows}
    half = held(rows, "half", "--heldout", "0.5")
    assert set[str]() < half < names
    assert held(rows[1:3], "fewer", "--heldout", "0.5") == half & {one["instance_id"] for one in rows[1:3]}
    assert held(rows[:1], "none") == set()
    assert held(rows[:2], "all", "--heldout", "1", "--heldout-by", "repository") == {
        one["instance_id"] for one in rows[:2]
    }


def test_of_harbor_tasks_none_is_held_out_by_an_import(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.joinpath("tasks").mkdir()
    flags = ["--out", str(tmp_path / "pool"), "--heldout", "0.5"]
    assert main(["tasks", "import", str(tmp_path / "tasks"), *flags]) == 2
    assert 'split = "heldout" in its task.toml' in capsys.readouterr().err
