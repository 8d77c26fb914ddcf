"""A task with a git history: every set-up finds the version in it, and no set-up brings the future back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_harness.errors import SetupError
from lego_harness.grading.git_history import other_history
from lego_harness.grading.reference import content_key, prepared_tree, solved_tree
from lego_harness.grading.sealed import sealed_git
from lego_harness.redteam.cheat import HONEST, all_cheats
from lego_harness.redteam.run import Result, attempt
from lego_harness.sandbox.base import Phase, SandboxSpec
from lego_harness.sandbox.bubblewrap import BubblewrapBackend
from lego_harness.tasks.folder import load_task, workspace_files
from lego_harness.tasks.proof import prove
from lego_harness.tasks.set_up import set_up
from lego_harness.types import Task
from tests.support.repair_task import FIXED, TESTS, write_files
from tests.support.sandboxes import BACKENDS, backend_called, unique_label

pytestmark = pytest.mark.long

CHEATS = {cheat.name: cheat for cheat in all_cheats()}
VERSIONED = "set -e\ngit describe --tags > VERSION\ngit status --short\n"
"""What setuptools_scm, hatch-vcs and versioneer ask for."""
NEEDS_VERSION = TESTS + "\n\ndef test_version():\n    assert open('VERSION').read() == 'v1.2\\n'\n"


def git(folder: Path, *arguments: str) -> str:
    safe = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(
        ["git", *safe, *arguments], cwd=folder, capture_output=True, check=True
    ).stdout.decode()


def versioned_task(folder: Path, setup: str = VERSIONED, **files: str) -> Task:
    """At its tag v1.2, with the fix in the commit after it."""
    changed = {"environment/setup.sh": setup, "tests/test_hidden.py": NEEDS_VERSION, **files}
    repo = write_files(folder, **changed) / "environment" / "repo"
    git(repo, "init", "-q", "-b", "trunk")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "base")
    git(repo, "tag", "v1.2")
    (repo / "calc.py").write_text(FIXED)
    git(repo, "commit", "-qam", "the fix")
    git(repo, "tag", "v1.3")
    git(repo, "reset", "-q", "--hard", "v1.2")
    return load_task(folder)


async def test_set_up_sees_the_version_for_the_agent_for_the_reference_and_untouched(tmp_path: Path) -> None:
    task, backend = versioned_task(tmp_path / "t"), BubblewrapBackend()
    for tree in (
        await prepared_tree(task, backend, label=unique_label()),
        (await solved_tree(task, backend, label=unique_label())).files,
    ):
        assert tree["VERSION"] == b"v1.2\n"
        assert not any(path.startswith(".git/") for path in tree)
    (proof,) = await prove([task], backend)
    assert proof.holds, proof.reason
    paid = await attempt(CHEATS[HONEST], task, backend, label=unique_label())
    assert paid.result is Result.HONEST, paid.detail


@pytest.mark.parametrize("name", BACKENDS)
async def test_after_set_up_the_agent_finds_one_commit_and_nothing_of_the_fix(
    tmp_path: Path, name: str
) -> None:
    task, backend = versioned_task(tmp_path / "t"), backend_called(name)
    files = {**workspace_files(task), **sealed_git(task.workspace)}
    look = "git rev-list --all --reflog --count; git cat-file --batch-all-objects --batch; git tag"
    async with backend.open(SandboxSpec(phase=Phase.AGENT, files=files, label=unique_label())) as sandbox:
        await set_up(sandbox, task, given=files, then=Phase.AGENT)
        seen = (await sandbox.exec(["sh", "-c", look], timeout_s=30)).stdout
    assert seen.splitlines()[0] == "1"
    assert "a - b" in seen
    assert "a + b" not in seen
    assert seen.splitlines()[-1] == "v1.2"


@pytest.mark.parametrize(
    "script",
    [
        "git init -q --bare store && cd store && echo fix | git hash-object -w --stdin",
        "git clone -q . vendored",
        "git clone -q . /tmp/elsewhere",
        "mkdir -p testdata/b.git/objects/11 && echo fix > testdata/b.git/objects/11/22222222222222222222222222222222222222",
        "git init -q $HOME/cache && cd $HOME/cache && echo fix | git hash-object -w --stdin",
        "mv .git/objects /tmp/kept && ln -s /tmp/kept .git/objects",
        "mkdir -p .git/objects/info && echo /tmp > .git/objects/info/alternates",
        "echo more > more && git add more",
    ],
)
async def test_a_set_up_that_leaves_other_git_objects_fails(tmp_path: Path, script: str) -> None:
    task = versioned_task(tmp_path / "t", f"({script}) >&2\n")
    found = await attempt(CHEATS[HONEST], task, BubblewrapBackend(), label=unique_label())
    assert found.reward is None
    assert "may hold the project's future" in found.detail


@pytest.mark.parametrize(
    "script", ["true", "cp -r testdata /tmp/copied", "cp -r . $HOME/built && rm -rf $HOME/built/.git"]
)
async def test_a_projects_own_fixtures_of_git_are_no_history(tmp_path: Path, script: str) -> None:
    task = versioned_task(
        tmp_path / "t",
        f"{VERSIONED}{script}\n",
        **{
            f"environment/repo/testdata/a.git/objects/{'1' * 2}/{'2' * 38}": "loose",
            f"environment/repo/testdata/a.git/objects/pack/pack-{'3' * 40}.pack": "packed",
        },
    )
    (proof,) = await prove([task], BubblewrapBackend())
    assert proof.holds, proof.reason
    paid = await attempt(CHEATS[HONEST], task, BubblewrapBackend(), label=unique_label())
    assert paid.result is Result.HONEST, paid.detail


async def test_a_history_that_cannot_be_sealed_is_a_task_that_does_not_hold(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "t")
    (folder / "environment" / "repo" / ".git").mkdir()
    (proof,) = await prove([load_task(folder)], BubblewrapBackend())
    assert not proof.holds
    assert "git rev-parse" in proof.reason


def test_what_is_remembered_of_a_task_is_of_its_commit_and_tag(tmp_path: Path) -> None:
    backend = BubblewrapBackend()
    plain = content_key(load_task(write_files(tmp_path / "t")), backend)
    one = versioned_task(tmp_path / "one", "true\n")
    again = versioned_task(tmp_path / "again", "true\n")
    git(again.workspace, "tag", "-d", "v1.2")
    assert len({plain, content_key(one, backend), content_key(again, backend)}) == 3


OBJECTS = st.sampled_from(
    [
        *(".git/objects/pack/pack-1.pack", "a/.git/objects/00/" + "1" * 38, "x.git/objects/info/alternates"),
        *(".git/modules/m/objects/pack/pack-2.pack", "objects/ff/" + "a" * 62),
    ]
)
OTHERS = st.sampled_from(
    [".git/index", ".git/config", ".git/refs/tags/v", "calc.py", "objects/ab/short", "my.pack"]
)


@given(st.dictionaries(OBJECTS, st.binary(max_size=2)), st.dictionaries(OTHERS, st.binary(max_size=2)))
def test_only_stored_objects_are_history_and_each_of_them_is(
    objects: dict[str, bytes], others: dict[str, bytes]
) -> None:
    assert other_history(objects, {**objects, **others}) == ""
    for path, content in objects.items():
        less = {name: objects[name] for name in objects if name != path}
        assert other_history(objects, less) == other_history(less, objects) == path
        assert other_history(objects, {**objects, path: content + b"x"}) == path


async def test_where_nothing_can_be_searched_set_up_fails(tmp_path: Path) -> None:
    task = versioned_task(tmp_path / "t", "mkdir -p $HOME/closed && chmod 0 $HOME/closed\n")
    spec = SandboxSpec(phase=Phase.SETUP, files=workspace_files(task), label=unique_label())
    with pytest.raises(SetupError, match="cannot be searched for git objects"):
        async with BubblewrapBackend().open(spec) as sandbox:
            await set_up(sandbox, task, given=spec.files, then=Phase.GRADE)
