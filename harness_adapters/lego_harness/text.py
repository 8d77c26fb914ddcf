"""Untrusted text on its way to a person: one bounded line without control characters."""

from __future__ import annotations

from typing import Literal


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
