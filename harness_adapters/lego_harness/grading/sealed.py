"""A task's sealed history, made once: kept in the cache folder by where the task lies and what its names stand for.

Sealing takes a dozen processes of git and reads a whole tree: callers on an event loop do it in a thread, one at a
time. Invariants: what is kept is of this workspace, this commit and these tags, and was made by this very code; it is
there whole or not at all. Nobody else's task can have put it there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from lego_harness.cache import cache_folder
from lego_harness.errors import SetupError
from lego_harness.grading import git_history, git_view
from lego_harness.grading.git_history import sealed_commit
from lego_harness.grading.git_view import view_of
from lego_harness.sandbox.workspace import write_files


@lru_cache(maxsize=32)
def sealed_git(workspace: Path) -> Mapping[str, bytes]:
    """`.git/…` files of the one-commit repository for a task's workspace; none when it has no `.git`.

    Raises SetupError where the repository cannot be read or the result holds more than one commit.
    """
    real = workspace / ".git"
    if real.is_symlink() or not real.is_dir():
        if os.path.lexists(real):
            raise SetupError(
                f"{real}: expected a folder; a linked worktree or submodule has its history elsewhere"
            )
        return {}
    try:
        with view_of(real) as view:
            return _kept(_place(workspace, view), view)
    except SetupError as error:
        raise SetupError(f"{real} cannot be sealed to one commit: {error}") from error


def _place(workspace: Path, view: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(workspace.resolve()))
    sources = (Path(git_history.__file__), Path(git_view.__file__))
    for path in (*(view / name for name in ("HEAD", "packed-refs", "shallow")), *sources):
        content = path.read_bytes() if path.exists() else b""
        digest.update(b"%d:" % len(content) + content)
    return cache_folder() / "sealed" / digest.hexdigest()[:32]


def _kept(place: Path, view: Path) -> Mapping[str, bytes]:
    if not place.is_dir():
        files = sealed_commit(view, "HEAD")
        try:
            _keep(place, files)
        except OSError as error:
            raise SetupError(f"{place}: cannot be written: {error.strerror}; set LEGO_CACHE") from error
        return files
    found = (path for path in place.rglob("*") if path.is_file())
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in found}


def _keep(place: Path, files: Mapping[str, bytes]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".sealed-", dir=place.parent))
    try:
        write_files(scratch, files)
        scratch.rename(place)
    except OSError:
        if not place.is_dir():  # another process was not faster either
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
