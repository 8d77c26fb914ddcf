"""The tokenizer of the simulated policy: one token per word or mark, any text round-trips.

Owns the vocabulary: the words of the simulated sessions, then single bytes. Written as `tokenizer.json`
next to the runs, so that faces can show tokens as text.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

import numpy as np
from tokenizers import Tokenizer, models

from lego_control.demo_runs.session import NOISE, PACKAGES, VERBS, WORDS
from lego_harness.types import TokenIds

_PIECE = re.compile(r" ?\w+|\s|.", re.DOTALL)
_PART = re.compile(r" ?[^\W_]+|.", re.DOTALL)
_SHELL = [
    "bash", "command", "name", "arguments", "tool_call", "tool_response", "think", "assistant", "user",
    "system", "cat", "sed", "grep", "python", "pytest", "git", "diff", "log", "echo", "src", "tests", "py",
    "test", "def", "return", "sum", "abs", "for", "in", "values", "total", "passed", "failed", "import",
    "print", "conftest", "ls", "COMPLETE", "TASK", "AND", "SUBMIT", "FINAL", "OUTPUT", "Repair", "returns",
    "wrong", "result", "negative", "a", "of", "You", "can", "with", "is", "one", "call",
]  # fmt: skip
_MARKS = ("<|im_start|>", "<|im_end|>")


@cache
def vocabulary() -> dict[str, int]:
    """Piece → id; the same for every seed."""
    words = [*WORDS, *NOISE, *PACKAGES, *VERBS, *_SHELL]
    pieces = [*_MARKS, *map(chr, range(256)), *words, *(" " + word for word in words)]
    return {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}


@lru_cache(8192)
def encode(text: str) -> TokenIds:
    """`[n]` ids of a text."""
    table, ids = vocabulary(), list[int]()
    for part in re.split(r"(<\|im_start\|>|<\|im_end\|>)", text):
        if part in table:
            ids.append(table[part])
            continue
        for piece in _PIECE.findall(part):
            if piece in table:
                ids.append(table[piece])
            else:
                ids += [i for part in _PART.findall(piece) for i in _spelled(part, table)]
    return np.array(ids, np.int32)


def decode(ids: TokenIds) -> str:
    """The text of ids."""
    pieces = list(vocabulary())
    return "".join(pieces[int(i)] for i in ids)


def _spelled(piece: str, table: dict[str, int]) -> list[int]:
    """A piece that is a token, else its characters; `?` for one outside the vocabulary."""
    return [table[piece]] if piece in table else [table.get(char, table["?"]) for char in piece]


def tokenizer_json() -> bytes:
    """tokenizer.json in Hugging Face's form."""
    return Tokenizer(models.WordLevel(vocabulary(), unk_token="?")).to_str().encode()
