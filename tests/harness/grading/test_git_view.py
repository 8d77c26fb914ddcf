"""Reading a stranger's repository starts none of its programs and leaves none of its bounds."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lego_harness.errors import SetupError
from lego_harness.grading.git import git_text
from lego_harness.grading.git_view import view_of
from lego_harness.grading.sealed import sealed_git
from lego_harness.sandbox.workspace import write_files

Hostile = Callable[[Path, Path], None]


def git(folder: Path, *arguments: str, stdin: bytes = b"", check: bool = True) -> str:
    who = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **who}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=env, input=stdin, capture_output=True, check=check
    )
    return done.stdout.decode("utf-8", "replace").strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "calc.py").write_text("base\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "base")
    git(folder, "tag", "v1")
    return folder


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """What a program of the repository's would leave; `program` beside it leaves it."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/marker\nexit 1\n")
    program.chmod(0o755)
    return tmp_path / "marker"


def signed(repo: Path, program: Path) -> None:
    """A signature to show, and the program that is to check it."""
    lines = git(repo, "cat-file", "commit", "HEAD").split("\n")
    lines.insert(3, "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----")
    commit = git(
        repo, "hash-object", "-t", "commit", "-w", "--stdin", stdin=("\n".join(lines) + "\n").encode()
    )
    git(repo, "update-ref", "HEAD", commit)
    git(repo, "config", "log.showSignature", "true")
    git(repo, "config", "gpg.program", str(program))


def promised(repo: Path, program: Path) -> None:
    """A missing blob, and the program that is to fetch it."""
    blob = git(repo, "rev-parse", "HEAD:calc.py")
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for key, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(repo),
        "remote.origin.uploadpack": str(program),
    }.items():
        git(repo, "config", key, value)


@pytest.mark.parametrize(
    ("hostile", "reads"),
    [(signed, ("log", "-1")), (promised, ("cat-file", "blob", "HEAD:calc.py"))],
)
def test_no_program_that_the_repository_names_is_started(
    repo: Path, marker: Path, hostile: Hostile, reads: tuple[str, ...]
) -> None:
    hostile(repo, marker.with_name("program"))
    git(repo, *reads, check=False)
    assert marker.exists()  # by git as it is
    marker.unlink()
    if hostile is promised:
        with pytest.raises(
            SetupError, match=r"cannot be sealed to one commit: git rev-list ended .*missing blob"
        ):
            sealed_git(repo)
    else:
        assert ".git/refs/heads/main" in sealed_git(repo)
    assert not marker.exists()


def borrows(repo: Path, other: Path) -> None:
    (repo / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "objects" / "info" / "alternates").write_text(f"{other}/.git/objects\n")


def links_objects(repo: Path, other: Path) -> None:
    (repo / ".git" / "objects").rename(repo / "was")
    (repo / ".git" / "objects").symlink_to(other / ".git" / "objects")


def links_a_loose_folder(repo: Path, other: Path) -> None:
    for folder in (other / ".git" / "objects").glob("[0-9a-f][0-9a-f]"):
        if not (repo / ".git" / "objects" / folder.name).exists():
            (repo / ".git" / "objects" / folder.name).symlink_to(folder)


def links_a_loose_object(repo: Path, other: Path) -> None:
    (found, *_) = (repo / ".git" / "objects").glob("[0-9a-f][0-9a-f]/*")
    (found.parent / ("0" * 38)).symlink_to(other / "secret")


def links_a_pack(repo: Path, other: Path) -> None:
    git(other, "repack", "-adq")
    for file in (other / ".git" / "objects" / "pack").iterdir():
        (repo / ".git" / "objects" / "pack" / file.name).symlink_to(file)


def links_head(repo: Path, other: Path) -> None:
    (repo / ".git" / "HEAD").unlink()
    (repo / ".git" / "HEAD").symlink_to(other / ".git" / "HEAD")


def links_a_branch(repo: Path, other: Path) -> None:
    (repo / ".git" / "refs" / "heads" / "x").symlink_to(other / ".git" / "refs" / "heads" / "main")


def has_a_pipe(repo: Path, other: Path) -> None:
    os.mkfifo(repo / ".git" / "packed-refs")


def is_a_link(repo: Path, other: Path) -> None:
    (repo / ".git").rename(repo / "was")
    (repo / ".git").symlink_to(other / ".git")


@pytest.mark.parametrize(
    "hostile",
    [
        *(borrows, links_objects, links_a_loose_folder, links_a_loose_object, links_a_pack),
        *(links_head, links_a_branch, has_a_pipe, is_a_link),
    ],
)
def test_nothing_outside_the_repository_is_shown(repo: Path, tmp_path: Path, hostile: Hostile) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    (other / "secret").write_text("of this machine\n")
    git(other, "add", ".")
    git(other, "commit", "-qm", "private")
    hostile(repo, other)
    with pytest.raises(SetupError, match=str(repo)):
        sealed_git(repo)


def test_whatever_git_writes_is_written_elsewhere(repo: Path) -> None:
    before = {path: path.read_bytes() for path in (repo / ".git").rglob("*") if path.is_file()}
    with view_of(repo / ".git") as view:
        git_text(view, "read-tree", "HEAD")
        assert git_text(view, "write-tree").strip() == git(repo, "rev-parse", "HEAD^{tree}")
        git_text(view, "update-ref", "refs/heads/new", "HEAD")
        git_text(view, "commit-tree", "HEAD^{tree}", "-m", "another")
        git_text(view, "repack", "-adq")
    assert {path: path.read_bytes() for path in (repo / ".git").rglob("*") if path.is_file()} == before
    assert not view.exists()


@pytest.mark.parametrize(
    "arrange", [("checkout", "-q", "--detach"), ("pack-refs", "--all"), ("repack", "-adq"), ("gc", "-q")]
)
def test_every_way_to_keep_a_commit_is_read(repo: Path, arrange: tuple[str, ...]) -> None:
    tree = git(repo, "rev-parse", "HEAD^{tree}")
    git(repo, *arrange)
    with view_of(repo / ".git") as view:
        assert git_text(view, "rev-parse", "HEAD^{tree}").strip() == tree
        assert git_text(view, "describe", "--tags").strip() == "v1"


def test_a_shallow_clone_is_sealed(repo: Path, tmp_path: Path) -> None:
    (repo / "calc.py").write_text("next\n")
    git(repo, "commit", "-qam", "next")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
    write_files(tmp_path / "seen", dict(sealed_git(tmp_path / "shallow")))
    assert git(tmp_path / "seen", "show", "HEAD:calc.py") == "next"


def test_names_that_git_does_not_give_are_left_out(repo: Path) -> None:
    commit = git(repo, "rev-parse", "HEAD")
    with (repo / ".git" / "packed-refs").open("w") as file:
        for name in ("refs/heads/../../x", "refs/tags/a b", "refs/heads/x.lock", "refs/replace/1", "config"):
            file.write(f"{commit} {name}\n")
        file.write(f"{commit} refs/tags/packed\nnonsense\n")
    with view_of(repo / ".git") as view:
        shown = git_text(view, "for-each-ref", "--format=%(refname)").split()
    assert shown == ["refs/heads/main", "refs/tags/packed", "refs/tags/v1"]
