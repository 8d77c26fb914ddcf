"""Demonstration tasks with invented names and disturbed sentences.

A policy this small learns its sentences by heart unless every other word may be anything at any
place; with noise the only thing left to learn is to find the operation's word. Invariants: the
training split's sentences are the only real ones used, and no invented word is a held-out one.
"""

from __future__ import annotations

import random
import re

from lego_harness.tasks.synth import SynthTask, make_task
from lego_harness.tasks.synth_words import HELDOUT, OPERATIONS, TRAIN, Operation, Vocabulary

_CONSONANTS, _VOWELS = "bcdfghjklmnpqrstvwxyz", "aeiou"


def noisy_task(rng: random.Random, wanted: Operation) -> SynthTask:
    """A task of the training split, more or less disturbed."""
    if rng.random() < 0.25:
        return make_task(rng, TRAIN, wanted)
    words = Vocabulary(
        verbs=_names(rng, TRAIN.verbs),
        nouns=_names(rng, TRAIN.nouns),
        files=_names(rng, TRAIN.files),
        arguments=_names(rng, TRAIN.arguments),
        frames=(_disturbed(rng, rng.choice(TRAIN.frames)),),
    )
    return make_task(rng, words, wanted)


def invented_word(rng: random.Random) -> str:
    """A pronounceable word, or letters at random; never one of the held-out split's."""
    while True:
        if rng.random() < 0.5:
            word = "".join(rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(rng.randint(1, 4)))
        else:
            word = "".join(rng.choice(_CONSONANTS + _VOWELS) for _ in range(rng.randint(1, 9)))
        if word not in _reserved():
            return word


def _names(rng: random.Random, real: tuple[str, ...]) -> tuple[str, str]:
    first = rng.choice(real) if rng.random() < 0.3 else invented_word(rng)
    second = invented_word(rng)
    return first, second if second != first else first + "x"


def _disturbed(rng: random.Random, frame: str) -> str:
    """Replaces a share of the words, adds some before and after; slots stay."""
    share = rng.choice((0.0, 0.2, 0.5, 0.8))
    words = [
        re.sub(r"[A-Za-z]+", lambda _: invented_word(rng), word)
        if "{" not in word and rng.random() < share
        else word
        for word in frame.split(" ")
    ]
    before, after = rng.choice((0, 0, 3, 10)), rng.choice((0, 0, 3, 10))
    extra = [invented_word(rng) for _ in range(rng.randint(0, before) + 1)]
    words = (extra if before else []) + words + [invented_word(rng) for _ in range(rng.randint(0, after))]
    return " ".join(words)


def _reserved() -> frozenset[str]:
    pools = (HELDOUT.verbs, HELDOUT.nouns, HELDOUT.files, HELDOUT.arguments)
    return frozenset(word for pool in pools for word in pool) | {op.word for op in OPERATIONS}
