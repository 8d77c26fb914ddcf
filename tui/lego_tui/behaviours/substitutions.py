"""`$(…)` and backticks of a shell text: taken out before it is split, put back into its words.

A word that is nothing else stands for the files that another command names. Linear in the text. Total. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARK = "\x01"
_MARKED = re.compile(rf"{_MARK}(\d+){_MARK}")
_OUTSIDE = re.compile(r"\\.|'[^']*'|\"|(?<!\S)#[^\n]*|`[^`]*`|\$\(", re.S)
_INSIDE = re.compile(r"\\.|\"|`[^`]*`|\$\(", re.S)
"""Of double quotes."""
_PARENS = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|[()]", re.S)


def substituted(text: str) -> tuple[str, list[str]]:
    """The text with a mark for each substitution, and what stood in them. One that never ends is none."""
    text = text.replace(_MARK, "")
    kept: list[str] = []
    scripts: list[str] = []
    place, is_quoted = 0, False
    while match := (_INSIDE if is_quoted else _OUTSIDE).search(text, place):
        end = _closing(text, match.end()) if match[0] == "$(" else match.end()
        if end < 0:
            break
        is_script = match[0][0] in "$`"
        kept += text[place : match.start()], f"{_MARK}{len(scripts)}{_MARK}" if is_script else match[0]
        if is_script:
            scripts.append(text[match.start() : end].lstrip("$")[1:-1])
        is_quoted ^= match[0] == '"'
        place = end
    return "".join(kept) + text[place:], scripts


def put_back(word: str, scripts: Sequence[str]) -> tuple[str, list[str]]:
    """A word as it was, and the scripts in it."""
    held = [scripts[int(number)] for number in _MARKED.findall(word)]
    return _MARKED.sub(lambda match: named_by(scripts[int(match[1])]), word), held


def named_by(script: str) -> str:
    """The word for the files that a script names."""
    return f"$({script})"


def is_named_by_another(word: str) -> bool:
    """Whether a word stands for the files that another command names."""
    return word.startswith("$(") and word.endswith(")")


def _closing(text: str, place: int) -> int:
    """Where a `$(` ends that begins before `place`; -1 where it does not."""
    depth = 1
    for match in _PARENS.finditer(text, place):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if not depth:
            return match.end()
    return -1
