"""SWE-bench instances as task folders, from a local clone of their repository.

    {instance_id, repo, base_commit, problem_statement, patch, test_patch, FAIL_TO_PASS, PASS_TO_PASS}
      ─▶ environment/repo (base, one sealed commit)   tests (with test_patch)   solution (patch)   task.toml
    docker_image ─▶ environment/Dockerfile, setup.sh (`checkout.py`)

Invariants: an instance is taken completely or refused with a UsageError that says why; only git objects of the clone
are read, and nothing in it is written, checked out or executed; no object after the base commit reaches
`environment/`. Whether the tests tell right from wrong is proven as for every task. Downloads nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from lego_harness.errors import SetupError, UsageError
from lego_harness.grading.git import run_git
from lego_harness.grading.git_history import sealed_commit
from lego_harness.grading.git_view import view_of
from lego_harness.grading.listed import FILE
from lego_harness.grading.patch import TEST_FOLDERS
from lego_harness.tasks.checkout import checkout_files
from lego_harness.tasks.git_tree import Tree, read_tree
from lego_harness.tasks.instances import Instance
from lego_harness.text import one_line

_SOLVE = """#!/bin/bash
here="$(cd "$(dirname "$0")" && pwd)"
git apply --whitespace=nowarn "$here/fix.patch" 2>/dev/null || patch --silent -p1 < "$here/fix.patch"
"""


def task_files(wanted: Instance, clones: Path, *, held_out: bool = False) -> tuple[dict[str, bytes], str]:
    """The files of the instance's task folder, and a sentence on what was left out; raises UsageError."""
    git = _clone(wanted.repo, clones)
    try:
        with view_of(git) as view:
            return _task_files(wanted, view, "heldout" if held_out else "train")
    except SetupError as error:
        raise UsageError(str(error)) from error


def _task_files(wanted: Instance, git: Path, split: str) -> tuple[dict[str, bytes], str]:
    base = f"{wanted.base_commit}^{{commit}}"
    _patched(git, base, "patch", wanted.patch)
    tested = _patched(git, base, "test_patch", wanted.test_patch)
    changed = run_git(git, ["diff-tree", "-r", "-z", "--name-only", base, tested], b"")
    folder = _test_folder([name for name in changed.decode("utf-8", "replace").split("\0") if name])
    repo, tests = read_tree(git, base), read_tree(git, tested)
    listed, notes = _listed(wanted, f"{folder}/")
    inner = _below(folder, tests.files)
    parts: dict[str, Mapping[str, bytes]] = {
        "environment/repo/": {**repo.files, **sealed_commit(git, base)},
        "tests/": {**inner, FILE: listed},
        "solution/": {"solve.sh": _SOLVE.encode(), "fix.patch": wanted.patch.encode()},
        "environment/": checkout_files(wanted.docker_image) if wanted.docker_image else {},
        "": {"instruction.md": wanted.problem_statement.encode(), "task.toml": _toml(wanted, split).encode()},
    }
    files = {f"{where}{name}": data for where, files in parts.items() for name, data in files.items()}
    return files, "; ".join([*notes, *_notes(repo, inner)])


def _below(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    start = f"{folder}/"
    return {name.removeprefix(start): data for name, data in files.items() if name.startswith(start)}


def _notes(repo: Tree, tests: Mapping[str, bytes]) -> Iterator[str]:
    """What of the project the task does not show."""
    if repo.left_out:
        first = one_line(repo.left_out[0], limit=120)
        yield f"{len(repo.left_out)} submodules or links to no file are left out, first {first}"
    if FILE in tests:
        yield f"{FILE} of the project's tests is replaced by the lists of tests"


def _clone(repo: str, clones: Path) -> Path:
    names = (repo, repo.replace("/", "__"), repo.rpartition("/")[2])
    for place in (clones / f"{name}{end}" for name in names for end in ("", ".git")):
        for git in (place / ".git", place):
            if (git / "objects").is_dir() and (git / "HEAD").is_file():
                return git.absolute()
    raise UsageError(f"no clone of {repo} in {clones}: git clone https://github.com/{repo} {clones / repo}")


def _patched(git: Path, base: str, column: str, patch: str) -> str:
    """The tree that a patch makes of a commit; raises UsageError if it does not apply."""
    run_git(git, ["read-tree", base], b"")
    try:
        run_git(git, ["apply", "--cached", "--whitespace=nowarn", "-"], patch.encode())
    except SetupError as error:
        raise UsageError(f"{column} does not apply to {base.partition('^')[0]}: {error}") from error
    return run_git(git, ["write-tree"], b"").decode().strip()


def _test_folder(changed: list[str]) -> str:
    """The one folder of tests that the test patch changes."""
    found = {_above_tests(name) for name in changed}
    if len(found) != 1 or "" in found:
        names = one_line(", ".join(sorted(changed)), limit=200)
        raise UsageError(f"test_patch changes {names}, expected files below one folder of tests")
    return found.pop()


def _above_tests(name: str) -> str:
    parts = PurePosixPath(name).parts
    at = next((i for i, part in enumerate(parts[:-1]) if part.lower() in TEST_FOLDERS), None)
    return "" if at is None else "/".join(parts[: at + 1])


def _listed(wanted: Instance, folder: str) -> tuple[bytes, list[str]]:
    """config.json with names below the tests folder; tests elsewhere cannot be run and are reported."""
    away = [name for name in wanted.fail_to_pass if not name.startswith(folder)]
    if away:
        raise UsageError(
            f"FAIL_TO_PASS: {one_line(away[0], limit=120)} is not a pytest name below {folder}{_runner_of(away[0])}"
        )
    kept = [name for name in wanted.pass_to_pass if name.startswith(folder)]
    lists = {"FAIL_TO_PASS": wanted.fail_to_pass, "PASS_TO_PASS": kept}
    ours = {key: [name.removeprefix(folder) for name in names] for key, names in lists.items()}
    lost = len(wanted.pass_to_pass) - len(kept)
    notes = [f"{lost} of PASS_TO_PASS are not below {folder} and decide nothing"] if lost else []
    return json.dumps(ours, indent=1).encode(), notes


def _runner_of(name: str) -> str:
    """Why a name is not one of pytest's, if its form shows it."""
    if re.fullmatch(r"\w+ \([\w.]+\)", name):
        return ": unittest's own runner, as Django's, calls tests so; it is not used here, leave the instance out"
    if re.fullmatch(r"\w+", name):
        return ", but a function without its file, as SymPy's runner calls tests: write FILE::FUNCTION"
    return ""


def _toml(wanted: Instance, split: str) -> str:
    return f"""version = "1.0"

[metadata]
category = "repair"
split = "{split}"
tags = ["swebench", {json.dumps(wanted.repo)}]

[agent]
timeout_sec = 1800.0

[verifier]
timeout_sec = 600.0
"""
