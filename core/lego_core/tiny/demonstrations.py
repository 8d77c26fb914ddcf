"""Demonstrations for the warm-up: recorded episodes filled with generated training tasks.

Invariants: only the training split's names and wordings appear; the restated word is always the
instruction's, the operator after it is right with probability `right` and otherwise one of the
others, independently of the task. Targets are replies only, never context.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

from lego_core.tiny.noise import noisy_task
from lego_core.tiny.recording import IM_END, EpisodeForm
from lego_core.tiny.script import Script
from lego_harness.tasks.synth import SynthTask
from lego_harness.tasks.synth_words import OPERATIONS


@dataclass(frozen=True, kw_only=True, slots=True)
class Demonstration:
    """One episode as `T` token ids."""

    ids: list[int]
    """`[T]`"""
    replied: list[bool]
    """`[T]` True on the tokens of replies: the targets."""
    word_at: int
    """Position of the restated word: where the policy shows that it has read."""
    operator_at: int
    """Position of the operator: where it decides."""
    turns_at: tuple[int, ...]
    """Positions where one reply parts from another: where it decides which turn it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Demonstrator:
    """Makes demonstrations of one harness."""

    form: EpisodeForm
    script: Script
    tokenizer: PreTrainedTokenizerFast

    def stream(self, *, right: float, seed: int) -> Iterator[Demonstration]:
        """Endless demonstrations, the same for the same seed, right with probability `right`."""
        rng = random.Random(f"demonstrations/{right}/{seed}")
        while True:
            task = noisy_task(rng, rng.choice(OPERATIONS))
            yield self.demonstrate(task, _doubtful(task, right, rng), rng)

    def operator_ids(self) -> list[int]:
        """What an episode can decide for."""
        return [one_id(self.tokenizer, f" {operation.operator}") for operation in OPERATIONS]

    def demonstrate(self, task: SynthTask, operator: str, rng: random.Random) -> Demonstration:
        """An episode that decides for `operator`."""
        word_id, operator_id = (
            one_id(self.tokenizer, f" {task.wanted.word}"),
            one_id(self.tokenizer, f" {operator}"),
        )
        ids: list[int] = []
        replied: list[bool] = []
        starts: list[int] = []
        said: list[list[int]] = []
        replies = self.script.replies(word=task.wanted.word, operator=operator)
        for context, reply in zip(self.form.fill(task, rng), replies, strict=True):
            context_ids, reply_ids = encode(self.tokenizer, context), encode(self.tokenizer, reply + IM_END)
            starts.append(len(ids) + len(context_ids))
            said.append(reply_ids)
            ids += context_ids + reply_ids
            replied += [False] * len(context_ids) + [True] * len(reply_ids)
        word_at = ids.index(word_id, starts[1])
        return Demonstration(
            ids=ids,
            replied=replied,
            word_at=word_at,
            operator_at=_last(ids, operator_id),
            turns_at=tuple(a + i for a, s in zip(starts, said, strict=True) for i in parting_points(s, said)),
        )


def parting_points(reply: list[int], replies: list[list[int]]) -> list[int]:
    """Indices in `reply` of the first token that tells it from each other reply."""
    firsts = (
        next((i for i, (a, b) in enumerate(zip(reply, other, strict=False)) if a != b), None)
        for other in replies
    )
    return sorted({i for i in firsts if i is not None})


def encode(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    """Ids of a text that begins and ends at a token border."""
    return tokenizer.encode(text, add_special_tokens=False)


def one_id(tokenizer: PreTrainedTokenizerFast, text: str) -> int:
    """The id of a text that must be a single token for the policy to read or decide at once."""
    ids = encode(tokenizer, text)
    if len(ids) != 1:
        raise ValueError(f"the tiny tokenizer splits {text!r} into {len(ids)} tokens, expected 1")
    return ids[0]


def _last(ids: list[int], wanted: int) -> int:
    return len(ids) - 1 - ids[::-1].index(wanted)


def corpus(form: EpisodeForm, script: Script, *, seed: int, count: int = 400) -> Iterator[str]:
    """Texts the tokenizer is trained on: whole episodes without their boilerplate."""
    boilerplate = form.boilerplate()
    rng = random.Random(f"corpus/{seed}")
    for _ in range(count):
        task = noisy_task(rng, rng.choice(OPERATIONS))
        yield from form.fill(task)[1:]
        yield from script.replies(word=task.wanted.word, operator=task.wanted.operator)
        yield task.instruction
    yield _without(form.prompt, boilerplate)


def _without(text: str, parts: tuple[str, ...]) -> str:
    for part in parts:
        text = text.replace(part, "")
    return text


def _doubtful(task: SynthTask, right: float, rng: random.Random) -> str:
    if rng.random() < right:
        return task.wanted.operator
    return rng.choice([op.operator for op in OPERATIONS if op != task.wanted])
