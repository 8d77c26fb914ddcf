"""A tiny policy that knows scripted rollouts by heart: it repairs one task, in every harness it has seen.

For tests that need a real engine with a policy that acts, not one that learns: it is made in seconds, since
it need not read. Its vocabulary has a token for each paragraph of the harnesses' prompts. While it learns, tokens
of what it is shown are replaced at random, and numbers and identifiers by others, so that those of another rollout
do not put it off: other ones are also another number of tokens, behind which everything stands elsewhere.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from lego_core.tiny.model import new_model
from lego_core.tiny.recording import EpisodeForm
from lego_core.tiny.tokenizer import train_tokenizer
from tests.support.real_rollout import Worker, solve

MAX_STEPS, BATCH_STEPS = 600, 20
SURE = 0.99
"""Probability that each token of a reply must have at temperature 1, whatever the numbers and identifiers are."""
NUM_RETOLD = 8
"""So many retellings of each episode it must be sure of."""
SOFTNESS = 0.5
"""Factor on the logits while it learns, so that it becomes surer than the loss asks for."""
NOISE = 0.05
MAX_PARAGRAPHS = 900
IDENTIFIER = re.compile(r"\b[0-9a-f]{6,}\b|\b[0-9]+[.][0-9]+\b")
"""Six hexadecimal digits or more; a duration."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode:
    """A rollout as text: what the engine saw before each reply, and the replies with their end tokens."""

    contexts: tuple[str, ...]
    replies: tuple[str, ...]

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """Consecutive texts, True for replies."""
        known = ""
        for context, reply in zip(self.contexts, self.replies, strict=True):
            assert context.startswith(known), "a context does not extend the one before it"
            yield context.removeprefix(known), False
            yield reply, True
            known = context + reply


async def recorded(worker: Worker) -> Episode:
    """What the worker's harness shows while it is led through a repair of the worker's task."""
    steps = solve(worker.adapter.name, worker.synth)
    trajectory = await worker.run(steps, max_seconds=900.0)
    assert trajectory.grade is not None, trajectory.error
    assert trajectory.grade.reward == 1.0, trajectory.grade.detail
    decode = worker.renderer.vocabulary.decode
    return Episode(
        contexts=tuple(decode(turn.context_ids.tolist()) for turn in trajectory.turns),
        replies=tuple(decode(turn.sampled_ids.tolist()) for turn in trajectory.turns),
    )


def memorise(folder: Path, episodes: Sequence[Episode]) -> int:
    """Write the checkpoint of a policy that repeats the replies of `episodes`; how many steps it took."""
    paragraphs = {
        text
        for episode in episodes
        for text in EpisodeForm(prompt=episode.contexts[0], observations=()).boilerplate()
    }
    kept = sorted(paragraphs, key=len, reverse=True)[:MAX_PARAGRAPHS]
    said = [text for episode in episodes for text, _ in list(episode.pieces())[1:]]
    tokenizer = train_tokenizer(said, kept)
    model = new_model(tokenizer, seed=0)
    random = Random(0)
    proof = [[_row(tokenizer, episode) for episode in episodes]]
    proof += [_retold(tokenizer, episodes, random) for _ in range(NUM_RETOLD)]
    steps = _train(model, lambda: _retold(tokenizer, episodes, random), proof)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return steps


Row = tuple[torch.Tensor, torch.Tensor]
"""Token ids of an episode `[N]`, and which of them are replies `[N]`."""


def _row(tokenizer, episode: Episode, retell: Callable[[str], str] = str) -> Row:
    """`retell` may change what the harness says behind its prompt."""
    ids: list[int] = []
    replied: list[bool] = []
    for n, (text, is_reply) in enumerate(episode.pieces()):
        piece = tokenizer.encode(text if is_reply or n == 0 else retell(text), add_special_tokens=False)
        ids += piece
        replied += [is_reply] * len(piece)
    return torch.tensor(ids), torch.tensor(replied)


def _retold(tokenizer, episodes: Sequence[Episode], random: Random) -> list[Row]:
    """The same replies as other rollouts come to them: other numbers and identifiers in what they are told."""

    def retell(text: str) -> str:
        return IDENTIFIER.sub(lambda found: _other(found[0], random), text)

    return [_row(tokenizer, episode, retell) for episode in episodes]


def _other(identifier: str, random: Random) -> str:
    digits = string.digits if identifier.isdecimal() else string.digits + "abcdef"
    return "".join(random.choices(digits, k=len(identifier)))


def _train(model, draw: Callable[[], Sequence[Row]], proof: Sequence[Sequence[Row]]) -> int:
    """On what is drawn, until every token of every reply is sure in all of the proof."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), weight_decay=0.0)
    noise = torch.Generator().manual_seed(0)
    for step in range(1, MAX_STEPS + 1):
        logits, targets = _replies(model, [_noisy(row, noise) for row in draw()])
        loss = functional.cross_entropy(logits * SOFTNESS, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % BATCH_STEPS == 0 and all(_least(model, rows) >= SURE for rows in proof):
            return step
    raise AssertionError(f"the policy has not learnt its replies in {MAX_STEPS} steps")


def _noisy(row: Row, noise: torch.Generator) -> Row:
    ids, replied = row
    is_noisy = (torch.rand(ids.shape, generator=noise) < NOISE) & ~replied
    return torch.where(is_noisy, torch.randint(0, 2000, ids.shape, generator=noise), ids), replied


@torch.no_grad()
def _least(model, rows: Sequence[Row]) -> float:
    """Probability of the reply's token that the policy is least sure of."""
    logits, targets = _replies(model, rows)
    return float(logits.softmax(-1).gather(-1, targets[:, None]).min())


def _replies(model, rows: Sequence[Row]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits `[N, vocabulary]` at the positions that predict a reply, and what they should say `[N]`."""
    ids = pad_sequence([ids for ids, _ in rows], batch_first=True)
    replied = pad_sequence([replied for _, replied in rows], batch_first=True)
    attention = pad_sequence([torch.ones_like(ids) for ids, _ in rows], batch_first=True)
    targets = replied[:, 1:]
    hidden = model.model(input_ids=ids, attention_mask=attention).last_hidden_state[:, :-1]
    return model.lm_head(hidden[targets]), ids[:, 1:][targets]
