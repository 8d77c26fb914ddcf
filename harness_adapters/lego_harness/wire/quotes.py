"""What a harness quotes of the policy's texts, found although prose was replaced.

A recording keeps replies as they were and replaces the prose of requests word by word, with pseudo-words
of the same length and case. So a quotation is known by its shape, and by one word standing for one word: a
line of what the policy said, wherever it is, and what it wrote into a call where a conversation begins with
that, as sub-agents' do. Owns finding it and putting the policy's own words back, which is what the harness
had sent. Invariant: a text keeps the form in which it was first seen, so that histories go on as they were,
in whatever blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

_WORD = re.compile(r"[A-Za-z]+")
_MARK = re.compile(r"[^A-Za-z\s]")
_TAG = re.compile(r"</?[a-zA-Z_]+>")
_WORD_BITS, _MARK_BITS = 2.5, 4.0
"""How much the length of a word, and a character that is no letter, tell of a line."""
_SHORTEST = 3
"""Letters of a word that is replaced."""
_KEPT = ("arguments", "input")
"""What calls say is no prose."""
_ENOUGH_BITS = 40.0
"""A line that tells less may have the shape of anything."""


class Quotes:
    """The lines that the policy said, to be put back where they are quoted."""

    def __init__(self) -> None:
        self._lines: dict[str, re.Pattern[str]] = {}
        self._tasks: dict[str, re.Pattern[str]] = {}
        self._seen: dict[str, str] = {}

    def add(self, text: str) -> None:
        """Remember what a reply said."""
        for line in _telling_lines(text):
            if line not in self._lines:
                self._lines[line] = re.compile(_shape(line))

    def add_task(self, text: str) -> None:
        """Remember what a call said."""
        if text not in self._tasks:
            self._tasks[text] = re.compile(_shape(text))

    def begin(self, text: str) -> None:
        """A conversation begins with a text, which may be or end with what a call said."""
        if text not in self._seen:
            self._seen[text] = self._restored_text(self._with_task(text))

    def restored(self, value: Any) -> Any:
        """A JSON value of a request with every quotation in the policy's own words."""
        if isinstance(value, str):
            if value not in self._seen:
                self._seen[value] = self._restored_text(value)
            return self._seen[value]
        if isinstance(value, Mapping):
            members = cast("Mapping[str, Any]", value)
            return {key: item if key in _KEPT else self.restored(item) for key, item in members.items()}
        if isinstance(value, Sequence):
            return [self.restored(item) for item in cast("Sequence[Any]", value)]
        return value

    def _restored_text(self, text: str) -> str:
        for line, shape in self._lines.items():
            if len(line) <= len(text) and line not in text:
                text = shape.sub(lambda found, line=line: _original(line, found.group()), text)
        return text

    def _with_task(self, text: str) -> str:
        for task, shape in self._tasks.items():
            before, last = text[: -len(task)], text[-len(task) :]
            if before[-1:] in ("", "\n") and shape.fullmatch(last):
                return before + _original(task, last)
        return text


def is_mostly(text: str, passage: str) -> bool:
    """Whether a text is a passage, or what prose replacement made of it, or holds it as its larger part, in
    whole lines. Paths and commands that any text may name are not meant."""
    if len(text) == len(passage):
        is_replaced = re.fullmatch(_shape(passage), text) is not None and _renames(passage, text)
        return text == passage or is_replaced
    return len(text) <= 2 * len(passage) and f"\n{passage}\n" in f"\n{text}\n"


def _original(line: str, found: str) -> str:
    return line if _renames(line, found) else found


def _telling_lines(text: str) -> Iterator[str]:
    for piece in _TAG.sub("\n", text).split("\n"):
        line = piece.strip()
        if _WORD_BITS * len(_WORD.findall(line)) + _MARK_BITS * len(_MARK.findall(line)) >= _ENOUGH_BITS:
            yield line


def _shape(line: str) -> str:
    """A pattern of what the line becomes when its words are replaced."""
    pieces: list[str] = []
    at = 0
    for word in _WORD.finditer(line):
        pieces.append(re.escape(line[at : word.start()]))
        is_kept = len(word.group()) < _SHORTEST
        pieces += [char if is_kept else "[A-Z]" if char.isupper() else "[a-z]" for char in word.group()]
        at = word.end()
    pieces.append(re.escape(line[at:]))
    return rf"(?<![A-Za-z]){''.join(pieces)}(?![A-Za-z])"


def _renames(line: str, other: str) -> bool:
    """Whether one word stands for one word throughout, or for itself as paths and names may keep it."""
    pairs = set(zip(_WORD.findall(line.lower()), _WORD.findall(other.lower()), strict=True))
    changed = {(one, two) for one, two in pairs if one != two}
    return len({one for one, _ in changed}) == len({two for _, two in changed}) == len(changed)
