"""Vendor prose made unreadable, word by word, so that recordings can be kept and shown.

    kept                                        replaced
    keys, names, roles, ids, calls' arguments   descriptions, prompts, instructions, results: words of
    paths, words with digits, short words       three letters and more, by pseudo-words of the same
    common words (`COMMON`)                     length and case
    words of our own: task, script, tools

Owns the replacement. Invariants: the same word always becomes the same pseudo-word and two words never do, so that
equality, prefixes and white space between requests are preserved; the same traffic gives the same
recording. What a model said is never touched.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

PROSE = frozenset({"text", "content", "description", "instructions", "system", "output", "title"})
"""Keys whose strings are prose."""
COMMON = (
    "the and for not you are can use user agent assistant tool tools file files with this that from your all any "
    "one two has have will should must when then than into out but test tests run running code task tasks "
    "system reminder message messages summary text true false null json http https anthropic billing header "
    "command commands output error path line lines bash shell python git root workspace"
)
_WORD = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z]{3,}(?![A-Za-z0-9_])")
_CHUNK = re.compile(r"\S+")
_PATH = re.compile(r"[(\"'`<]*(?:~|\.{1,2})?/\w")
_CONSONANTS, _VOWELS = "bcdfghjklmnpqrstvwz", "aeiou"


class Prose:
    """One recording's replacement; remembers which pseudo-word stands for what."""

    def __init__(self, kept: Iterable[str]) -> None:
        """`kept` are texts whose words are ours."""
        self._kept = set(COMMON.split()).union(*(words(text) for text in kept))
        self._pseudo: dict[str, str] = {}
        self._taken = set(self._kept)

    def replaced(self, value: Any, key: str = "") -> Any:
        """A JSON value of a request without its prose."""
        if isinstance(value, str):
            return self.replaced_text(value) if key in PROSE else value
        if isinstance(value, Mapping):
            members = cast("Mapping[str, Any]", value)
            return {name: self.replaced(item, name) for name, item in members.items()}
        if isinstance(value, Sequence):
            return [self.replaced(item, key) for item in cast("Sequence[Any]", value)]
        return value

    def replaced_text(self, text: str) -> str:
        """A text without its prose; paths stay."""
        return _CHUNK.sub(lambda chunk: self._replaced_chunk(chunk.group()), text)

    def _replaced_chunk(self, chunk: str) -> str:
        return chunk if _PATH.match(chunk) else _WORD.sub(self._replaced_word, chunk)

    def _replaced_word(self, found: re.Match[str]) -> str:
        word = found.group()
        if word.lower() in self._kept:
            return word
        pseudo = self._pseudo_word(word.lower())
        return "".join(new.upper() if old.isupper() else new for old, new in zip(word, pseudo, strict=True))

    def _pseudo_word(self, word: str) -> str:
        if word not in self._pseudo:
            self._pseudo[word] = next(one for one in _pseudo_words(word) if one not in self._taken)
            self._taken.add(self._pseudo[word])
        return self._pseudo[word]


def words(text: str) -> set[str]:
    """The words of a text, in small letters."""
    return {word.lower() for word in re.findall(r"[A-Za-z]{3,}", text)}


def _pseudo_words(word: str) -> Iterator[str]:
    """An endless sequence of pronounceable words of the same length."""
    attempt = 0
    while True:
        digest = hashlib.sha256(f"{word}/{attempt}".encode()).digest() * (len(word) // 32 + 1)
        letters = (
            (_VOWELS if index % 2 else _CONSONANTS)[byte % (5 if index % 2 else len(_CONSONANTS))]
            for index, byte in enumerate(digest[: len(word)])
        )
        yield "".join(letters)
        attempt += 1
