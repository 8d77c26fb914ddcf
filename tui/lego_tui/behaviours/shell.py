"""What a command line does: acts for each of its commands.

Owns the reading of shell text, coarse and total: whatever is not shell is one act of kind `run`. Quoting,
here-documents, `cd`, `bash -c` and plain variables are respected; nothing is run. `commands.py` splits the text,
`programs.py` knows programs. Pure.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePosixPath

from lego_tui.behaviours import programs
from lego_tui.behaviours.commands import Command, commands_of, without_bodies
from lego_tui.behaviours.redirections import Redirected, redirected
from lego_tui.behaviours.runners import BUILDERS, says_something
from lego_tui.behaviours.substitutions import is_named_by_another, named_by
from lego_tui.behaviours.vocabulary import Act, is_scratch, settled

MAX_COMMAND = 20_000
"""Characters of one command line that are read."""
_MAX_DEPTH, _MAX_ACTS, _MAX_NAME = 4, 1000, 200
"""Of `bash -c` within `bash -c`, acts of one line, and characters of a pipeline that stand for the files it names."""
_FINISH = re.compile(r"COMPLETE_TASK_AND_SUBMIT")
_SHELLS = frozenset(["bash", "sh", "zsh", "dash", "ksh"])
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})$")


@lru_cache(maxsize=64)
def acts_of(command: str, depth: int = 0) -> tuple[Act, ...]:
    """The acts of a command line, in order; at least one. Cached, because many shells may get the same text."""
    text, bodies = without_bodies(command[:MAX_COMMAND])
    line = Line(bodies=bodies, depth=depth)
    found: list[Act] = []
    commands = list(commands_of(text))
    for each, following in itertools.zip_longest(commands, commands[1:]):
        found += line.acts(each, is_piped=following is not None and following.is_fed)
        if len(found) >= _MAX_ACTS:
            break
    return tuple(found) or (Act(kind="run"),)


def _acts(words: list[str], source: str, bodies: str, depth: int, is_piped: bool) -> Iterator[Act]:
    """Of one command; `source` is the pipeline before it."""
    if _FINISH.search(" ".join(words)):
        yield Act(kind="finish")
        return
    streams = redirected(words)
    words = _supplied(streams.words, source)
    program = PurePosixPath(words[0]).name if words else ""
    if program in ("submit", "finish") and len(words) == 1:
        yield Act(kind="finish")
    elif program in _SHELLS and depth < _MAX_DEPTH and (inner := _script(words[1:], bodies)):
        yield from acts_of(inner, depth + 1)
    elif program == "find" and "-exec" in words and depth < _MAX_DEPTH:
        place = words.index("-exec")
        inner = ["xargs", *itertools.takewhile(lambda word: word not in "+;", words[place + 1 :])]
        yield Act(kind="explore")
        yield from _acts(inner, " ".join(words[:place]), bodies, depth + 1, is_piped)
    else:
        yield _one(words, program, streams, bodies, is_piped)


def _supplied(words: list[str], source: str) -> list[str]:
    """The command itself, with the files that `xargs` hands it."""
    bare = programs.bare(words)
    if not bare or "xargs" not in words[: len(words) - len(bare)]:
        return bare
    supplied = named_by(source)
    if "{}" in bare:
        return [supplied if word == "{}" else word for word in bare]
    return [*bare, supplied]


def _one(words: list[str], program: str, streams: Redirected, bodies: str, is_piped: bool) -> Act:
    if streams.given and program in ("", "done"):  # `$(<FILE)`, and a loop over a file's lines
        words, program = ["cat"], "cat"
    if streams.given and (program in programs.READS or programs.INTERPRETERS.match(program)):
        words = [*words, *streams.given]
    kind, paths, is_whole = programs.read(program, words, bodies) if words else ("run", (), False)
    written = tuple(path for path in streams.written if not is_scratch(path))
    if written and kind not in ("test", "execute"):
        return Act(kind="edit", paths=written, is_whole=True)
    is_shown = streams.is_shown and not is_piped
    is_loud = (kind == "test" and says_something(words)) or (kind == "read" and streams.is_hushed)
    return Act(
        kind=kind,
        paths=paths,
        is_whole=is_whole,
        is_loud=is_loud and is_shown,
        may_test=is_shown and (kind == "execute" or program in BUILDERS),
    )


def _script(rest: Sequence[str], bodies: str) -> str:
    """What a shell is told to run: after `-c`, or on its standard input."""
    for place, word in enumerate(rest):
        if re.match(r"-\w*c$", word):
            return " ".join(rest[place + 1 : place + 2])
    return bodies if all(word.startswith("-") for word in rest) else ""


@dataclass(kw_only=True, slots=True)
class Line:
    """What a line remembers from one command to the next."""

    bodies: str
    depth: int
    place: str = ""
    """The folder, relative to the first one unless known."""
    values: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    pipeline: str = ""
    """The commands whose output comes to this one."""
    is_strict: bool = False
    """Behind `set -e`."""

    def acts(self, command: Command, is_piped: bool) -> list[Act]:
        """What a command does, its scripts before it."""
        scripts = command.scripts if self.depth < _MAX_DEPTH else ()
        found = [act for script in scripts for act in acts_of(script, self.depth + 1)]
        words = list(_expanded(command.words, self.values))
        _remember(words, self.values)
        source = self.pipeline if command.is_fed else ""
        own = _acts(words, source, self.bodies, self.depth, is_piped)
        is_conditional = self.is_strict or command.joint == "&&"
        found += (settled(_at(act, self.place, is_conditional)) for act in own)
        self.pipeline = " | ".join(filter(None, (source, " ".join(words))))[:_MAX_NAME]
        self.is_strict |= words[0] == "set" and any(re.match(r"-\w*e", word) for word in words)
        self.place = _moved(self.place, words)
        return found


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


def _at(act: Act, place: str, is_conditional: bool) -> Act:
    paths = (path if is_named_by_another(path) else posixpath.join(place, path) for path in act.paths)
    return replace(act, paths=tuple(paths), is_conditional=act.is_conditional or is_conditional)
