"""A foreign repository behind a git folder of ours, so that git never meets what a stranger configured.

    foreign .git ─ view_of ─▶ OURS/.git     our config; HEAD, branches, tags and shallow commits, checked and copied
                              OURS/store    links to its packs and loose objects, the only alternate

A repository's own config may name programs that reading starts (`gpg.program`, `uploadpack` of a promisor), its
`objects/info/alternates` and its links any place of this machine: none of them is read. Invariants: whatever is
shown is a regular file below the foreign folder, by a name that git gives; what git writes lands in ours; nothing
is written to the foreign folder, and ours is gone behind the block. Runs nothing.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from lego_harness.errors import SetupError

_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
_NOWHERE = "ref: refs/heads/nothing"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(r"refs/(heads|tags)(/(?!\.)[^\x00-\x20\x7f~^:?*\[\\/]+)+")
_ODD = re.compile(r"\.\.|@\{|\.lock(/|$)|\.$")
_PACKED = re.compile(r"pack-[0-9a-f]{40}\.(pack|idx)")
_LOOSE = re.compile(r"[0-9a-f]{2}")
_MAX_BYTES = 64 * 2**20
"""Of one file that is copied."""
_MAX_FILES = 2**20


@contextmanager
def view_of(git: Path) -> Generator[Path]:
    """A git folder of ours that shows what `git`, a foreign one, holds; raises SetupError where that is no repository
    of its own: with alternates, links or special files in place of its content."""
    with tempfile.TemporaryDirectory(prefix="lego-git-") as scratch:
        ours = Path(scratch, ".git")
        try:
            _show_objects(git.absolute() / "objects", ours)
            _copy_names(git, ours)
        except OSError as error:
            raise SetupError(f"{git}: cannot be read: {error.strerror or error}") from error
        yield ours


def _show_objects(theirs: Path, ours: Path) -> None:
    store = ours.parent / "store"
    (ours / "objects" / "info").mkdir(parents=True)
    (ours / "objects" / "info" / "alternates").write_text("../../store\n")
    (store / "pack").mkdir(parents=True)
    if os.path.lexists(theirs / "info" / "alternates"):
        raise SetupError(
            f"{theirs / 'info' / 'alternates'}: objects are borrowed from elsewhere, expected all of them here: "
            "run git repack -ad and remove the file"
        )
    for entry in _entries(theirs):
        if _LOOSE.fullmatch(entry.name):
            _require_files(_entries(entry))
            (store / entry.name).symlink_to(entry)
    packs = [entry for entry in _entries(theirs / "pack") if _PACKED.fullmatch(entry.name)]
    _require_files(packs)
    for pack in packs:
        (store / "pack" / pack.name).symlink_to(pack)


def _copy_names(theirs: Path, ours: Path) -> None:
    """HEAD becomes the commit that it stands for."""
    refs = _refs(theirs)
    head = _text(theirs / "HEAD").strip()
    found = head if _COMMIT.fullmatch(head) else refs.get(head.removeprefix("ref: ").strip(), _NOWHERE)
    shallow = [line for line in _text(theirs / "shallow").split("\n") if _COMMIT.fullmatch(line)]
    (ours / "refs").mkdir()
    for name, lines in {
        "config": [_CONFIG.rstrip()],
        "HEAD": [found],
        "packed-refs": [f"{commit} {name}" for name, commit in sorted(refs.items())],
        **({"shallow": shallow} if shallow else {}),
    }.items():
        (ours / name).write_bytes(os.fsencode("".join(f"{line}\n" for line in lines)))


def _refs(theirs: Path) -> dict[str, str]:
    """Branches and tags by name; loose ones go before packed ones, what git would not name so is left out."""
    pairs = [line.partition(" ")[::2] for line in _text(theirs / "packed-refs").split("\n")]
    told = {name: commit for commit, name in pairs}
    for kind in ("heads", "tags"):
        told |= {
            path.relative_to(theirs).as_posix(): _text(path).strip()
            for path in _below(theirs / "refs" / kind)
        }
    return {
        name: commit
        for name, commit in told.items()
        if _COMMIT.fullmatch(commit) and _NAME.fullmatch(name) and not _ODD.search(name)
    }


def _below(folder: Path) -> Iterator[Path]:
    left = [folder]
    while left:
        for entry in _entries(left.pop()):
            if entry.is_dir():
                left.append(entry)
            else:
                yield entry


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder; nothing where it is missing."""
    try:
        mode = folder.lstat().st_mode
    except FileNotFoundError:
        return []
    if not stat.S_ISDIR(mode):
        raise SetupError(f"{folder}: expected a folder of git's own, got a link or a file")
    with os.scandir(folder) as found:
        names = [entry.name for _, entry in zip(range(_MAX_FILES + 1), found, strict=False)]
    if len(names) > _MAX_FILES:
        raise SetupError(f"{folder}: expected at most {_MAX_FILES} files")
    return [folder / name for name in sorted(names)]


def _require_files(paths: list[Path]) -> None:
    for path in paths:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise SetupError(f"{path}: expected a file of git's own, got a link or something special")


def _text(path: Path) -> str:
    """A regular file's, whole; empty where it is missing."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return ""
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise SetupError(f"{path}: expected a file of git's own, got something special")
        content = opened.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise SetupError(f"{path}: expected at most {_MAX_BYTES} bytes")
    return os.fsdecode(content)
