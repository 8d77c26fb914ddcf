"""What a program does that stands in a command, or in its here-document.

Owns the reading of such programs, of a few languages and by their text alone. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from lego_tui.behaviours.runners import is_test_program

INTERPRETERS = re.compile(r"^(?:python[\d.]*|node|ruby|perl|php|java|deno|bun|bash|sh|zsh|dash|Rscript|lua)$")
_WRITES = re.compile(
    r"write_text|write_bytes|open\([^)\n]{0,200}['\"][wax]b?\+?['\"]|(?<!stdout)(?<!stderr)\.write\(|fs\.writeFile"
)
_SHOWS = re.compile(
    r"(?:print|sys\.stdout\.write|console\.log)\(\s*(?:open|(?:pathlib\.)?Path|(?:\w+\.)?readFileSync)\([^()\n]{1,200}\)"
    r"(?:\.read(?:_text)?\(\))?(?:,[^()\n]{0,100})?\);?"
)
_PREAMBLE = re.compile(r"(?:(?:import|from) [\w., ]{1,200}[;\n]\s*)*")
_NAMED = re.compile(r"['\"]([\w./-]{1,200}\.\w{1,6})['\"]")
_FILTER = re.compile(r"-[alw0]*[np][alw0]*e?$")
_QUESTIONS = frozenset(["--version", "-V", "--help", "-h"])


@lru_cache(maxsize=64)
def program_kind(text: str) -> str:
    """The kind of act that a program is. Remembered, as what it names is: each of a line's commands asks."""
    if _WRITES.search(text):
        return "edit"
    if is_test_program(text):
        return "test"
    return "read" if _shows(text) and named(text) else "execute"


@lru_cache(maxsize=64)
def named(text: str) -> tuple[str, ...]:
    """The files that a program names."""
    return tuple(dict.fromkeys(_NAMED.findall(text)))


def is_filter(program: str, rest: Sequence[str]) -> bool:
    """`perl -ne '…' FILE` is what `sed '…' FILE` is."""
    return program in ("perl", "ruby") and any(map(_FILTER.match, rest[:3]))


def runs_none(rest: Sequence[str]) -> bool:
    """`python --version` runs no program."""
    return not _QUESTIONS.isdisjoint(rest[:1])


def _shows(text: str) -> bool:
    """Whether it does nothing but print a file."""
    begin = _PREAMBLE.match(text)
    return _SHOWS.fullmatch(text, begin.end() if begin else 0) is not None
