"""The files of one tree of a repository, in memory, as a task shows them.

Regular files as they are, links to files as copies. Invariant: whatever else a tree has (links to folders or out of it,
submodules) is named in `left_out`, not dropped in silence; a tree that is too large, lacks objects or has names that no
task can have is refused with a UsageError. Reads only through `git_view.py`, writes nothing.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lego_harness.errors import UsageError
from lego_harness.grading.git import run_git
from lego_harness.sandbox.base import MAX_EXPORT_BYTES, MAX_EXPORT_FILES
from lego_harness.text import one_line

_LINK = "120000"
_MAX_HOPS = 40
"""Of a chain of links, as the kernel has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """What a tree holds."""

    files: dict[str, bytes]
    left_out: tuple[str, ...]
    """Paths of submodules and of links that lead to no file of the tree."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    mode: str
    kind: str
    sha: str
    size: str


def read_tree(view: Path, tree: str) -> Tree:
    """The tree of that name; raises UsageError, or SetupError if git fails."""
    entries = dict(_entries(run_git(view, ["ls-tree", "-r", "-l", "-z", "--full-tree", tree], b"")))
    blobs = {name: entry for name, entry in entries.items() if entry.kind == "blob"}
    _require_size(blobs)
    wanted = "".join(f"{entry.sha}\n" for entry in blobs.values()).encode()
    raw = dict(zip(blobs, _contents(run_git(view, ["cat-file", "--batch"], wanted), len(blobs)), strict=True))
    links = {name: raw.pop(name) for name, entry in blobs.items() if entry.mode == _LINK}
    pointed = {name: _end(name, links) for name in links}
    copies = {name: raw[to] for name, to in pointed.items() if to in raw}
    return Tree(files=raw | copies, left_out=tuple(sorted(entries.keys() - raw.keys() - copies.keys())))


def _entries(listing: bytes) -> Iterator[tuple[str, _Entry]]:
    for line in filter(None, listing.split(b"\0")):
        about, _, name = line.partition(b"\t")
        mode, kind, sha, size = about.decode("ascii").split()
        try:
            yield name.decode("utf-8"), _Entry(mode=mode, kind=kind, sha=sha, size=size)
        except UnicodeDecodeError as error:
            shown = one_line(name.decode("utf-8", "replace"))
            raise UsageError(f"its tree has the name {shown}, expected names in UTF-8") from error


def _require_size(blobs: dict[str, _Entry]) -> None:
    missing = [name for name, entry in blobs.items() if not entry.size.isdigit()]
    if missing:
        raise UsageError(f"the clone lacks {one_line(missing[0])} and maybe more; fetch it whole")
    size = sum(int(entry.size) for entry in blobs.values())
    if len(blobs) > MAX_EXPORT_FILES or size > MAX_EXPORT_BYTES:
        raise UsageError(
            f"its tree has {len(blobs)} files of {size} bytes, expected at most {MAX_EXPORT_FILES} files and "
            f"{MAX_EXPORT_BYTES} bytes"
        )


def _contents(stream: bytes, count: int) -> Iterator[bytes]:
    at = 0
    for _ in range(count):
        head = stream[at : stream.find(b"\n", at)]
        if len(head.split()) != 3:
            said = one_line(head.decode("utf-8", "replace"))
            raise UsageError(f"an object is not in the clone: {said}; fetch it whole")
        at += len(head) + 1
        size = int(head.split()[2])
        yield stream[at : at + size]
        at += size + 1


def _end(name: str, links: dict[str, bytes]) -> str:
    """Where a link leads, through other links, as a path in the tree."""
    for _ in range(_MAX_HOPS):
        if name not in links:
            return name
        target = links[name].decode("utf-8", "surrogateescape")
        name = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return ""
