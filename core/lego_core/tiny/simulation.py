"""Episodes in process: the policy sampled by torch, the sandbox played by the recorded form.

Serves the warm-up's gate only: real rollouts go through the harness, vLLM and a sandbox. Stricter
than those: a reply that is not the script's form ends the episode unsolved.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import DynamicCache, PreTrainedTokenizerFast, Qwen3MoeForCausalLM

from lego_core.tiny.demonstrations import encode
from lego_core.tiny.recording import EpisodeForm
from lego_core.tiny.script import Script
from lego_harness.tasks.synth import SynthTask

MAX_REPLY = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Episode:
    """One simulated rollout."""

    ids: list[int]
    mask: list[bool]
    """True on sampled tokens."""
    valid: bool
    """Every reply had the script's form."""
    read: bool
    """The restated word was the instruction's."""
    solved: bool


@dataclass(kw_only=True, slots=True)
class _Running:
    task: SynthTask
    texts: tuple[str, ...]
    ids: list[int]
    mask: list[bool]
    replies: list[str]


@torch.no_grad()
def simulate(
    model: Qwen3MoeForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    form: EpisodeForm,
    script: Script,
    tasks: Sequence[SynthTask],
    *,
    temperature: float,
    seed: int,
) -> list[Episode]:
    """Play one episode of every task."""
    generator = torch.Generator().manual_seed(seed)
    rng = random.Random(seed)
    running = [_Running(task=t, texts=form.fill(t, rng), ids=[], mask=[], replies=[]) for t in tasks]
    for turn in range(len(running[0].texts)):
        alive = [e for e in running if len(e.replies) == turn and _expected(script, e)]
        if not alive:
            break
        _play_turn(model, tokenizer, alive, turn, temperature, generator)
    return [_judge(script, e) for e in running]


def _play_turn(model, tokenizer, episodes: list[_Running], turn: int, temperature: float, generator) -> None:
    for episode in episodes:
        context = encode(tokenizer, episode.texts[turn])
        episode.ids += context
        episode.mask += [False] * len(context)
    replies = sample(model, [e.ids for e in episodes], temperature=temperature, generator=generator)
    for episode, reply in zip(episodes, replies, strict=True):
        episode.ids += reply
        episode.mask += [True] * len(reply)
        text = tokenizer.decode(reply, skip_special_tokens=False)
        episode.replies.append(text.removesuffix("<|im_end|>"))


def sample(
    model: Qwen3MoeForCausalLM, contexts: list[list[int]], *, temperature: float, generator: torch.Generator
) -> list[list[int]]:
    """Continue each context until the end token, at most `MAX_REPLY` tokens."""
    end, pad = int(model.config.eos_token_id), int(model.config.pad_token_id)  # type: ignore[arg-type]
    width = max(map(len, contexts))
    ids = torch.tensor([[pad] * (width - len(c)) + c for c in contexts])
    attention = torch.tensor([[0] * (width - len(c)) + [1] * len(c) for c in contexts])
    cache, replies = DynamicCache(config=model.config), [[] for _ in contexts]
    done = torch.zeros(len(contexts), dtype=torch.bool)
    positions = (attention.cumsum(-1) - 1).clamp(min=0)
    for _ in range(MAX_REPLY):
        logits = model(
            input_ids=ids, attention_mask=attention, position_ids=positions, cache=cache, logits_to_keep=1
        ).logits[:, -1]
        ids = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)
        for i in (~done).nonzero().flatten().tolist():
            replies[i].append(int(ids[i]))
        done |= ids[:, 0] == end
        if done.all():
            break
        attention = torch.cat([attention, torch.ones_like(ids)], -1)
        positions = positions[:, -1:] + 1
    return replies


def _expected(script: Script, episode: _Running) -> bool:
    """True while every reply so far has the script's form."""
    shape = script.replies(word="WORD", operator="OPERATOR")
    return all(_matches(want, got) for want, got in zip(shape, episode.replies, strict=False))


def _matches(want: str, got: str) -> re.Match[str] | None:
    pattern = re.escape(want).replace("WORD", r"([a-z]+)").replace("OPERATOR", r"([-+*/]+)")
    return re.fullmatch(pattern, got)


def _judge(script: Script, episode: _Running) -> Episode:
    shape = script.replies(word="WORD", operator="OPERATOR")
    valid = len(episode.replies) == len(shape) and _expected(script, episode)
    edit = _matches(shape[1], episode.replies[1]) if len(episode.replies) > 1 else None
    word, operator = edit.groups() if edit else ("", "")
    return Episode(
        ids=episode.ids,
        mask=episode.mask,
        valid=valid,
        read=word == episode.task.wanted.word,
        solved=valid and operator == episode.task.wanted.operator,
    )
