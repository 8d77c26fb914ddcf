"""Shell text → the words of each command.

Owns splitting: here-documents, quotes over several lines, `;`, `&&`, `|`. Linear in the text. Total. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")


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


def commands_of(text: str) -> Iterator[list[str]]:
    """Words of each command between `;`, `&&`, `||`, `|`, `&` and line ends."""
    for line in filter(str.strip, _lines(text.replace("\\\n", " "))):
        words: list[str] = []
        for token in _tokens(line):
            if token and set(token) <= set(";&|()") and token != "&>":
                if words:
                    yield words
                words = []
            else:
                words.append(token)
        if words:
            yield words


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
