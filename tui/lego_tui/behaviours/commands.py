"""Shell text → its commands.

Owns splitting: here-documents, quotes over several lines, `;`, `&&`, `|`, `$(…)`. Linear in the text. Total. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lego_tui.behaviours.substitutions import put_back, substituted

_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One command of a line."""

    words: list[str]
    """Without quotes; `$(…)` is one word, or within one."""
    joint: str
    """What joins it to the one before: `;`, `&&`, `||`, `|`, `&`."""
    scripts: tuple[str, ...]
    """What stands in its `$(…)` and backticks: they run before it does."""

    @property
    def is_fed(self) -> bool:
        """Whether a pipe leads to it."""
        return self.joint in ("|", "|&")


def without_bodies(command: str) -> tuple[str, str]:
    """The line without its here-documents, and their text. One that never ends does not count."""
    lines = command.split("\n")
    endings = {line.strip() for line in lines}
    kept: list[str] = []
    bodies: list[str] = []
    open_ends: list[str] = []
    for line in lines:
        if not open_ends:
            kept.append(line)
            open_ends += [match[2] for match in _HEREDOC.finditer(line) if match[2] in endings]
        elif line.strip() == open_ends[0]:
            open_ends.pop(0)
        else:
            bodies.append(line)
    return "\n".join(kept), "\n".join(bodies)


def commands_of(text: str) -> Iterator[Command]:
    """Each command between `;`, `&&`, `||`, `|`, `&` and line ends."""
    text, scripts = substituted(text.replace("\\\n", " "))
    joint = ";"
    for line in filter(str.strip, _lines(text)):
        words: list[str] = []
        for token in [*_tokens(line), ";"]:
            if not _is_joint(token):
                words.append(token)
                continue
            following = token.strip("()") or ";"
            if words:
                yield _command(words, joint, scripts)
                words, joint = [], following
            elif joint == ";":  # what stands at the end of a line holds for the next
                joint = following


def _command(words: Sequence[str], joint: str, scripts: Sequence[str]) -> Command:
    found = [put_back(word, scripts) for word in words]
    inner = tuple(script for _, within in found for script in within)
    return Command(words=[word for word, _ in found], joint=joint, scripts=inner)


def _is_joint(token: str) -> bool:
    return bool(token) and set(token) <= set(";&|()")


def _lines(text: str) -> Iterator[str]:
    """Lines, joined where a quote spans several; unchanged after a quote that is never closed."""
    begin, quote, opened = 0, "", 0
    is_escaped = is_comment = False
    for place, char in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif char == "\n" and not quote:
            yield text[begin:place]
            begin, is_comment = place + 1, False
        elif is_comment:
            continue
        elif quote:
            is_escaped = char == "\\" and quote == '"'
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote, opened = char, place
        elif char == "\\":
            is_escaped = True
        elif char == "#":
            is_comment = place == begin or text[place - 1].isspace()
    rest = text[begin:]
    yield from rest.split("\n") if quote and opened >= begin else [rest]


def _tokens(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        return list(lexer)
    except ValueError:  # a quote that is never closed: no shell at all
        return line.split()
