"""What a command line does: acts for each of its commands.

Owns the reading of shell text, coarse and total: whatever is not shell is one act of kind `run`. Quoting,
here-documents, `cd`, `bash -c` and plain variables are respected; nothing is run. `commands.py` splits the text,
`programs.py` knows programs. Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePosixPath

from lego_tui.behaviours import programs
from lego_tui.behaviours.commands import commands_of, without_bodies

MAX_COMMAND = 20_000
"""Characters of one command line that are read."""
KINDS = ("finish", "edit", "test", "execute", "read", "explore", "run")
"""What a command may be, the most telling first. `execute` runs a program of somebody's (an interpreter, a script),
`run` is everything else. An `edit` changes, makes or removes a file, scratch files (`is_scratch`) aside; what a test
run or a program prints into a file is none."""
_MAX_DEPTH, _MAX_ACTS = 4, 1000
"""Of `bash -c` within `bash -c`, and of one line."""
_SCRATCH = ("/tmp/", "/var/tmp/", "/dev/")
_FINISH = re.compile(r"COMPLETE_TASK_AND_SUBMIT")
_SHELLS = frozenset(["bash", "sh", "zsh", "dash", "ksh"])
_REDIRECT = re.compile(r"^\d?>{1,2}\|?$|^&>{1,2}$")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """What one command does, or one call of a tool that is not a shell."""

    kind: str
    """One of KINDS."""
    paths: tuple[str, ...] = ()
    """Files it names, if it reads, edits, tests or executes."""
    is_whole: bool = False
    """An edit that writes the file as a whole, so that it may be a new one."""


@lru_cache(maxsize=64)
def acts_of(command: str, depth: int = 0) -> tuple[Act, ...]:
    """The acts of a command line, in order; at least one. Cached, because many shells may get the same text."""
    text, bodies = without_bodies(command[:MAX_COMMAND])
    place = ""
    values: dict[str, list[str]] = {}
    found: list[Act] = []
    for raw in commands_of(text):
        words = list(_expanded(raw, values))
        _remember(words, values)
        found += (settled(_at(act, place)) for act in _acts(words, bodies, depth))
        if len(found) >= _MAX_ACTS:
            break
        place = _moved(place, words)
    return tuple(found) or (Act(kind="run"),)


def is_scratch(path: str) -> bool:
    """Whether a path is in a folder for temporary files, which are nobody's work."""
    return path.startswith(_SCRATCH)


def settled(act: Act) -> Act:
    """An edit of scratch files only is no edit."""
    is_nothing = act.kind == "edit" and bool(act.paths) and all(map(is_scratch, act.paths))
    return replace(act, kind="run") if is_nothing else act


def _acts(words: list[str], bodies: str, depth: int) -> Iterator[Act]:
    """Of one command."""
    if _FINISH.search(" ".join(words)):
        yield Act(kind="finish")
        return
    words, written = _redirected(words)
    words = programs.bare(words)
    program = PurePosixPath(words[0]).name if words else ""
    if program in ("submit", "finish") and len(words) == 1:
        yield Act(kind="finish")
    elif program in _SHELLS and depth < _MAX_DEPTH and (inner := _script(words[1:], bodies)):
        yield from acts_of(inner, depth + 1)
    elif program == "find" and "-exec" in words and depth < _MAX_DEPTH:
        yield Act(kind="explore")
        yield from _acts(words[words.index("-exec") + 1 :], bodies, depth + 1)
    else:
        yield _one(words, program, written, bodies)


def _one(words: list[str], program: str, written: tuple[str, ...], bodies: str) -> Act:
    kind, paths, is_whole = programs.read(program, words, bodies) if words else ("run", (), False)
    kept = [path for path in written if not is_scratch(path)]
    if kept and kind not in ("test", "execute"):
        return Act(kind="edit", paths=tuple(kept), is_whole=True)
    return Act(kind=kind, paths=tuple(path for path in paths if path != "{}"), is_whole=is_whole)


def _script(rest: Sequence[str], bodies: str) -> str:
    """What a shell is told to run: after `-c`, or on its standard input."""
    for place, word in enumerate(rest):
        if re.match(r"-\w*c$", word):
            return " ".join(rest[place + 1 : place + 2])
    return bodies if all(word.startswith("-") for word in rest) else ""


def _redirected(words: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """The words without redirections, and the files written by them."""
    kept: list[str] = []
    written: list[str] = []
    place = 0
    while place < len(words):
        word = words[place]
        following = words[place + 1] if place + 1 < len(words) else ""
        if word and set(word) <= set("<>&|") and ("<" in word or ">" in word):
            if _REDIRECT.match(word) and following and not re.match(r"/dev/|&|\d$", following):
                written.append(following)
            if kept and kept[-1].isdigit():
                kept.pop()  # the number before `>`
            place += 2
            continue
        kept.append(word)
        place += 1
    return kept, tuple(written)


# --- what a line remembers from one command to the next -------------------------------------------


def _remember(words: list[str], values: dict[str, list[str]]) -> None:
    """`name=value`, and `for name in values`."""
    if len(words) > 3 and words[0] == "for" and words[2] == "in":
        values[words[1]] = words[3:]
    elif len(words) == 1 and (match := re.match(r"([A-Za-z_]\w*)=(.+)", words[0], re.S)):
        values[match[1]] = [match[2]]


def _expanded(words: Sequence[str], values: dict[str, list[str]]) -> Iterator[str]:
    for word in words:
        match = _VARIABLE.match(word) if values and word.startswith("$") else None
        yield from values.get(match[1] or match[2], [word]) if match else [word]


def _moved(place: str, words: Sequence[str]) -> str:
    """The folder after a `cd`, relative to the first one unless known."""
    if len(words) != 2 or words[0] != "cd" or words[1].startswith(("-", "~", "$")):
        return place
    moved = posixpath.normpath(posixpath.join(place, words[1]))
    return "" if moved == "." or moved.startswith("..") else moved


def _at(act: Act, place: str) -> Act:
    if not place or not act.paths:
        return act
    return replace(act, paths=tuple(posixpath.join(place, path) for path in act.paths))
