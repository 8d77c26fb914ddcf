"""What an agent finds of a project's history: one commit of the same tree, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lego_harness.errors import SetupError
from lego_harness.grading.git_history import audit
from lego_harness.grading.sealed import sealed_git
from lego_harness.sandbox.base import Phase, SandboxBackend, SandboxSpec
from lego_harness.sandbox.workspace import write_files
from lego_harness.tasks.folder import tree_files
from tests.support.sandboxes import unique_label

IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}


def git(folder: Path, *arguments: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **IDENTITY}
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace").strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository at its base, with the fix in every place where history can hide."""
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "trunk")
    for number in range(3):
        (repo / "calc.py").write_text(f"base {number}\n")
        git(repo, "add", ".")
        git(repo, "commit", "-qm", f"c{number}")
    git(repo, "tag", "-a", "v1.2", "-m", "release")
    base = git(repo, "rev-parse", "HEAD")
    (repo / "calc.py").write_text("SECRETFIX\n")
    git(repo, "commit", "-qam", "the fix")
    fix = git(repo, "rev-parse", "HEAD")
    git(repo, "branch", "future")
    git(repo, "tag", "v1.3")
    git(repo, "notes", "add", "-m", "see the fix")
    git(repo, "worktree", "add", "-q", str(tmp_path / "other"), "future")
    git(repo, "reset", "-q", "--hard", base)
    git(repo, "replace", base, fix)
    (repo / "calc.py").write_text("stashed\n")
    git(repo, "stash", "-q")
    (repo / "calc.py").write_text("dirty\n")
    git(repo, "remote", "add", "origin", "https://example.org/x")
    (repo / ".git" / "objects" / "info" / "alternates").write_text("/nowhere\n")
    (repo / ".git" / "ORIG_HEAD").write_text(fix)
    (repo / ".git" / "hooks").mkdir(exist_ok=True)
    (repo / ".git" / "hooks" / "post-index-change").write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    (repo / ".git" / "hooks" / "post-index-change").chmod(0o755)
    return repo


def unpacked(files: dict[str, bytes], folder: Path) -> Path:
    write_files(folder, files)
    return folder


def test_the_sealed_repository_has_one_commit_of_the_same_tree_and_the_tag(
    project: Path, tmp_path: Path
) -> None:
    (project / ".git" / "objects" / "info" / "alternates").unlink()
    tree = git(project, "--no-replace-objects", "rev-parse", "HEAD^{tree}")
    seen = unpacked({**tree_files(project), **sealed_git(project)}, tmp_path / "seen")
    assert git(seen, "rev-parse", "HEAD^{tree}") == tree
    assert git(seen, "rev-list", "--all", "--count") == "1"
    assert git(seen, "describe", "--tags") == "v1.2"
    assert git(seen, "status", "--short") == "M calc.py"
    assert list(audit(seen / ".git")) == []


def test_nothing_of_the_fix_is_in_it(project: Path, tmp_path: Path) -> None:
    (project / ".git" / "objects" / "info" / "alternates").unlink()
    seen = unpacked(dict(sealed_git(project)), tmp_path / "seen")
    everything = git(seen, "cat-file", "--batch-all-objects", "--batch")
    assert "SECRETFIX" not in everything
    assert "stashed" not in everything
    assert not (tmp_path / "hooked").exists()


def test_a_sealed_history_is_kept_until_a_commit_or_a_tag_changes(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LEGO_CACHE", str(tmp_path / "cache"))
    (project / ".git" / "objects" / "info" / "alternates").unlink()
    sealed = sealed_git(project)
    (project / ".git" / "objects").rename(tmp_path / "gone")
    (project / ".git" / "objects").mkdir()
    sealed_git.cache_clear()
    assert sealed_git(project) == sealed  # by nothing of git's
    sealed_git.cache_clear()
    (project / ".git" / "refs" / "tags" / "v9").write_bytes(
        (project / ".git" / "refs" / "tags" / "v1.3").read_bytes()
    )
    with pytest.raises(SetupError, match="git rev-parse"):
        sealed_git(project)
    shutil.copytree(project, tmp_path / "copy")
    (tmp_path / "copy" / ".git" / "refs" / "tags" / "v9").unlink()
    with pytest.raises(SetupError, match="git rev-parse"):  # another task cannot be given this one's
        sealed_git(tmp_path / "copy")


def test_a_workspace_is_read_without_its_repository(project: Path) -> None:
    assert set(tree_files(project)) == {"calc.py"}


def test_a_workspace_without_git_gets_none(tmp_path: Path) -> None:
    assert sealed_git(tmp_path) == {}


def test_a_repository_that_cannot_be_sealed_fails_the_set_up(tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".git").write_text("gitdir: /elsewhere\n")
    with pytest.raises(SetupError, match="expected a folder"):
        sealed_git(linked)
    empty = tmp_path / "empty"
    (empty / ".git").mkdir(parents=True)
    with pytest.raises(SetupError, match=r"empty/\.git cannot be sealed to one commit: git rev-parse"):
        sealed_git(empty)


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        (("commit", "--allow-empty", "-qm", "x"), "commits"),
        (("stash",), "commits"),
        (("remote", "add", "o", "https://example.org"), "git remote"),
        (("notes", "add", "-m", "x"), "refs/notes"),
        (("tag", "-a", "t", "-m", "x"), "tag objects"),
    ],
)
def test_the_audit_names_whatever_is_there_beside_one_commit(
    project: Path, tmp_path: Path, command: tuple[str, ...], fault: str
) -> None:
    (project / ".git" / "objects" / "info" / "alternates").unlink()
    seen = unpacked({**tree_files(project), **sealed_git(project)}, tmp_path / "seen")
    git(seen, *command)
    assert any(fault in found for found in audit(seen / ".git")), list(audit(seen / ".git"))


async def test_the_agent_works_with_git_and_finds_one_commit(project: Path, backend: SandboxBackend) -> None:
    (project / ".git" / "objects" / "info" / "alternates").unlink()
    files = {**tree_files(project), **sealed_git(project)}
    script = "git log --oneline | wc -l; git diff --stat | tail -1; git stash -q && git status --short; git describe"
    spec = SandboxSpec(phase=Phase.AGENT, files=files, label=unique_label())
    async with backend.open(spec) as sandbox:
        env = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        result = await sandbox.exec(["bash", "-c", script], timeout_s=30, env=env)
    assert result.stdout.split("\n")[0].strip() == "1", result.stderr
    assert "1 file changed" in result.stdout
