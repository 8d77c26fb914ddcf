"""A tiny policy that knows scripted rollouts by heart: it repairs one task, in every harness it has seen.

For tests that need a real engine with a policy that acts, not one that learns: it is made in seconds, since
it need not read. Its vocabulary has a token for each paragraph of the harnesses' prompts, and while it learns,
tokens of what it is shown are replaced at random, so that a duration or a date does not put it off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional

from lego_core.tiny.model import new_model
from lego_core.tiny.recording import EpisodeForm
from lego_core.tiny.tokenizer import train_tokenizer
from tests.support.real_rollout import Worker, solve

MAX_STEPS, BATCH_STEPS = 600, 20
SURE = 0.99
"""Probability that each token of a reply must have, at temperature 1."""
SOFTNESS = 0.5
"""Factor on the logits while it learns, so that it becomes surer than the loss asks for."""
NOISE = 0.1
MAX_PARAGRAPHS = 900


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
    rows = [_row(tokenizer, episode) for episode in episodes]
    steps = _train(model, *_padded(rows, pad=int(tokenizer.pad_token_id or 0)))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return steps


def _row(tokenizer, episode: Episode) -> tuple[list[int], list[bool]]:
    ids: list[int] = []
    replied: list[bool] = []
    for text, is_reply in episode.pieces():
        piece = tokenizer.encode(text, add_special_tokens=False)
        ids += piece
        replied += [is_reply] * len(piece)
    return ids, replied


def _padded(rows, pad: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([ids + [pad] * (width - len(ids)) for ids, _ in rows])
    replied = torch.tensor([replied + [False] * (width - len(replied)) for _, replied in rows])
    attention = torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in rows])
    return ids, replied, attention


def _train(model, ids: torch.Tensor, replied: torch.Tensor, attention: torch.Tensor) -> int:
    """Until every token of every reply is sure."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98), weight_decay=0.0)
    random = torch.Generator().manual_seed(0)
    targets = replied[:, 1:]
    for step in range(1, MAX_STEPS + 1):
        is_noisy = (torch.rand(ids.shape, generator=random) < NOISE) & ~replied
        shown = torch.where(is_noisy, torch.randint(0, 2000, ids.shape, generator=random), ids)
        logits = _logits(model, shown, attention, targets)
        loss = functional.cross_entropy(logits * SOFTNESS, ids[:, 1:][targets])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % BATCH_STEPS == 0 and _is_sure(model, ids, attention, targets):
            return step
    raise AssertionError(f"the policy has not learnt its replies in {MAX_STEPS} steps")


@torch.no_grad()
def _is_sure(model, ids: torch.Tensor, attention: torch.Tensor, targets: torch.Tensor) -> bool:
    chances = _logits(model, ids, attention, targets).softmax(-1)
    return bool(chances.gather(-1, ids[:, 1:][targets][:, None]).min() >= SURE)


def _logits(model, ids: torch.Tensor, attention: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """`[N, vocabulary]` at the positions that predict a reply."""
    hidden = model.model(input_ids=ids, attention_mask=attention).last_hidden_state[:, :-1]
    return model.lm_head(hidden[targets])
