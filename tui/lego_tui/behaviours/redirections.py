"""Where a command's input comes from and its output goes to.

Owns `<`, `>`, `>>`, `2>`, `&>` among a command's words. Total. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_WRITES = re.compile(r">{1,2}\|?$|&>{1,2}$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Redirected:
    """A command without its redirections, and what they are."""

    words: list[str]
    written: tuple[str, ...]
    """Files that it writes."""
    given: tuple[str, ...]
    """Files that it reads as its input."""
    is_shown: bool
    """Its output stands in the call's result, as far as it goes by redirections."""
    is_hushed: bool
    """Its complaints do not."""


def redirected(words: Sequence[str]) -> Redirected:
    """The redirections of a command."""
    kept: list[str] = []
    found: list[tuple[str, str, str]] = []
    place = 0
    while place < len(words):
        word, following = words[place], "".join(words[place + 1 : place + 2])
        if not _is_redirection(word):
            kept.append(word)
            place += 1
            continue
        number = kept.pop() if kept and kept[-1].isdigit() else ""
        found.append((number, word, following))
        place += 2
    outs = [each for each in found if _WRITES.match(each[1]) and not re.match(r"&|\d$", each[2])]
    return Redirected(
        words=kept,
        written=tuple(name for _, _, name in outs if name and not name.startswith("/dev/")),
        given=tuple(name for _, word, name in found if word == "<" and name),
        is_shown=all(number == "2" for number, _, _ in outs),
        is_hushed=any(number == "2" or word.startswith("&") for number, word, _ in outs),
    )


def _is_redirection(word: str) -> bool:
    return bool(word) and set(word) <= set("<>&|") and ("<" in word or ">" in word)
