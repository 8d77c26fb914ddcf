"""What the warm-up shows, and what it must never show."""

from __future__ import annotations

import itertools
import random
import re

from lego_core.tiny.demonstrations import Demonstrator, one_id
from lego_core.tiny.noise import invented_word, noisy_task
from lego_harness.tasks.synth_words import HELDOUT, OPERATIONS


def test_the_word_stands_before_the_operator_and_both_are_replies(demonstrator: Demonstrator) -> None:
    words = {one_id(demonstrator.tokenizer, f" {op.word}") for op in OPERATIONS}
    operators = {one_id(demonstrator.tokenizer, f" {op.operator}") for op in OPERATIONS}
    for shown in itertools.islice(demonstrator.stream(right=0.4, seed=0), 20):
        assert shown.word_at < shown.operator_at
        assert shown.ids[shown.word_at] in words
        assert shown.ids[shown.operator_at] in operators
        assert shown.replied[shown.word_at]
        assert shown.replied[shown.operator_at]


def test_operators_are_right_as_often_as_asked(demonstrator: Demonstrator) -> None:
    right = {
        one_id(demonstrator.tokenizer, f" {op.word}"): one_id(demonstrator.tokenizer, f" {op.operator}")
        for op in OPERATIONS
    }
    shown = list(itertools.islice(demonstrator.stream(right=0.4, seed=0), 600))
    share = sum(s.ids[s.operator_at] == right[s.ids[s.word_at]] for s in shown) / len(shown)
    assert 0.34 < share < 0.46


def test_demonstrations_repeat_for_a_seed_and_differ_between_seeds(demonstrator: Demonstrator) -> None:
    first, again, other = (
        [s.ids for s in itertools.islice(demonstrator.stream(right=0.4, seed=seed), 5)] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_no_heldout_name_or_sentence_is_ever_demonstrated() -> None:
    rng = random.Random(0)
    heldout_names = {*HELDOUT.files, *HELDOUT.arguments}
    for _ in range(500):
        task = noisy_task(rng, rng.choice(OPERATIONS))
        verb, _, noun = task.function.partition("_")
        assert verb not in HELDOUT.verbs
        assert noun not in HELDOUT.nouns
        assert task.file.removesuffix(".py") not in HELDOUT.files
        assert heldout_names.isdisjoint(re.findall(r"[a-z]+", task.source.partition("def ")[2]))
        assert not any(_fits(frame, task.instruction) for frame in HELDOUT.frames)


def test_invented_words_are_never_operation_words() -> None:
    rng = random.Random(0)
    assert {op.word for op in OPERATIONS}.isdisjoint(invented_word(rng) for _ in range(20_000))


def _fits(frame: str, instruction: str) -> bool:
    pattern = re.sub(r"\\\{\w+\\\}", r"[\\w.]+", re.escape(frame))
    return re.search(pattern, instruction) is not None
