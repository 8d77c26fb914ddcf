"""The repository an agent sees: one commit, whatever history its project has.

    task's .git (host only) ─ git_view ─ sealed_commit ─▶ .git files: one commit of the same tree, the tag that
                                                          `describe` finds, nothing else

The real `.git` never enters a sandbox, so that no future commit, stash, reflog or unreachable object can
be found there; the same sealed repository stands in the grading sandbox for builds that ask git for a
version. Invariants: what is handed out passed `audit`, else SetupError; git reads the objects and names of the
task's repository by a view of ours, and none of its configuration; it never runs on a `.git` that an agent or a
set-up wrote: of what a set-up leaves, only names and bytes are looked at.
See SWE-bench#465, where agents read the fix in future commits.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from lego_harness.errors import SetupError
from lego_harness.grading.git import git_text as _git
from lego_harness.grading.git import run_git

_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = false\n\tbare = false\n"
_KEPT = ("HEAD", "config", "index", "packed-refs", "objects/pack/", "refs/heads/", "refs/tags/")
HISTORIES = frozenset({".git", ".hg", ".svn", ".bzr", ".jj"})
"""Folders that no workspace shows: whoever needs the first gets it sealed."""
STORED = re.compile(
    r"(^|/)objects/(pack/([^/]+\.pack|tmp_[^/]+)|[0-9a-f]{2}/[0-9a-f]{38,}|info/(http-)?alternates)$"
    r"|(^|/)lfs/objects/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{64}$|(^|/)\.(hg/store|svn/pristine|bzr/repository)/"
)
"""Where git keeps content: in the repository of a workspace, in a clone, a submodule or a bare repository; and where
others of its kind keep theirs."""


def sealed_commit(view: Path, commit: str) -> dict[str, bytes]:
    """`.git/…` files of the one-commit repository of a commit that `git_view.py`'s view of a repository shows.

    Raises SetupError where that cannot be read or the result holds more than one commit.
    """
    with tempfile.TemporaryDirectory(prefix="lego-git-") as scratch:
        new = Path(scratch, ".git")
        _seal(view, new, commit)
        if faults := list(audit(new)):
            raise SetupError(f"the sealed repository holds more than one commit: {faults[0]}")
        return {f".git/{name}": (new / name).read_bytes() for name in sorted(_files(new))}


def audit(git: Path) -> Iterator[str]:
    """Whatever a repository of ours holds beside one commit and what it reaches; empty when it is sealed."""
    names = set(_files(git))
    yield from (f"unexpected {name}" for name in sorted(names) if not name.startswith(_KEPT))
    commits = _git(git, "rev-list", "--all", "--reflog").split()
    if len(commits) != 1:
        yield f"{len(commits)} commits are reachable"
    if unreachable := _git(git, "fsck", "--unreachable", "--no-reflogs", "--no-progress").strip():
        yield unreachable.splitlines()[0]
    packed = _git(git, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    if packed.count("commit") != 1 or "tag" in packed:
        yield f"{packed.count('commit')} commits and {packed.count('tag')} tag objects are stored"
    for kind in ("remote", "stash list", "worktree list", "notes list", "for-each-ref refs/replace"):
        lines = _git(git, *kind.split()).splitlines()
        if len(lines) > (kind == "worktree list"):
            yield f"git {kind}: {lines[-1]}"


def other_history(given: Mapping[str, bytes], left: Mapping[str, bytes]) -> str:
    """A stored git object by which the files in `left` hold more or less than those in `given`; else empty.

    Refs, settings and the index name objects and hold none: without one there is nothing to read.
    """
    stores = [{path: files[path] for path in files if STORED.search(path)} for files in (given, left)]
    return min((path for path, _ in stores[0].items() ^ stores[1].items()), default="")


def _seal(view: Path, new: Path, base: str) -> None:
    """Copy the objects of the base's tree, commit them anew, set the branch, the tag and the index."""
    tree = _git(view, "rev-parse", "--verify", f"{base}^{{tree}}").strip()
    date = _git(view, "log", "-1", "--format=%ct +0000", base).strip()
    _git(new, "init", "--quiet", "--initial-branch=main", "--template=")
    objects = _git(view, "rev-list", "--objects", "--no-object-names", tree)
    pack = run_git(view, ["pack-objects", "--quiet", "--stdout"], objects.encode())
    run_git(new, ["index-pack", "--stdin", "--fix-thin"], pack)
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    commit = run_git(new, ["commit-tree", tree, "-m", "Base"], b"", dates).decode().strip()
    _git(new, "update-ref", "refs/heads/main", commit)
    if tag := _described(view, base):
        _git(new, "update-ref", f"refs/tags/{tag}", commit)
    _git(new, "read-tree", "main")
    _git(new, "repack", "-adq")
    (new / "config").write_bytes(_CONFIG)
    for empty in ("branches", "description", "info", "hooks", "logs", "objects/info"):
        _remove(new / empty)


def _described(view: Path, base: str) -> str:
    """The nearest tag: a build that derives its version from git finds the one it would have found."""
    try:
        return _git(view, "describe", "--tags", "--abbrev=0", base).strip()
    except SetupError:
        return ""


def _files(git: Path) -> Iterator[str]:
    return (
        path.relative_to(git).as_posix() for path in git.rglob("*") if path.is_file() or path.is_symlink()
    )


def _remove(path: Path) -> None:
    for inner in sorted(path.rglob("*"), reverse=True):
        inner.rmdir() if inner.is_dir() else inner.unlink()
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
