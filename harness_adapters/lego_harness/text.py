"""Untrusted text on its way to a person: one bounded line of what matters, without control characters."""

from __future__ import annotations

from bisect import bisect_left
from typing import Literal

MAX_SHOWN = 80
"""Characters of what differs."""


def one_line(text: str, *, limit: int = 300, keep: Literal["start", "end"] = "start") -> str:
    """`text` with every run of blanks and unprintable characters as one space, cut to `limit`.

    >>> one_line("Traceback:\\n  \\x1b[31mboom")
    'Traceback: [31mboom'
    """
    printable = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(printable.split())
    if len(line) <= limit:
        return line
    return line[: limit - 1] + "…" if keep == "start" else "…" + line[-(limit - 1) :]


def changed(one: str, other: str) -> str:
    """What differs first between two texts, in words.

    >>> changed("It is 10:01.", "It is 10:02, hurry.")
    "was '1.' and is '2, hurry.' from character 10 on"
    """
    at = first_difference(one, other)
    end = at + MAX_SHOWN
    where = f" from character {at} on" if at else ""
    return f"was {one[at:end]!r} and is {other[at:end]!r}{where}"


def first_difference(one: str, other: str) -> int:
    """Index of the first character that differs; the shorter length where one begins with the other.

    >>> first_difference("10:01", "10:02"), first_difference("ab", "abc")
    (4, 2)
    """
    length = min(len(one), len(other))
    return bisect_left(range(length), True, key=lambda at: one[: at + 1] != other[: at + 1])
