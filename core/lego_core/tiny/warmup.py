"""The supervised warm-up: teaches form and reading, leaves the decision in doubt.

Deterministic by seed on one machine. Gate: the measured policy must be well-formed and must solve
neither too few nor too many held-out tasks, so that reinforcement learning has something to do
and something to build on. Sees only the training split's names and wordings.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, Qwen3MoeForCausalLM

from lego_core.tiny.demonstrations import Demonstration, Demonstrator
from lego_core.tiny.simulation import simulate
from lego_harness.tasks.synth import generate


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmupConfig:
    """Every input of the warm-up; part of the build cache's key."""

    sure_steps: int = 100
    """First phase: mostly right demonstrations, so that the word becomes the operator's cause."""
    doubt_steps: int = 60
    """Second phase: doubtful ones, which set how often the policy decides right."""
    batch: int = 16
    learning_rate: float = 3e-3
    doubt_learning_rate: float = 1e-3
    """Smaller, so that the doubt is an average over many demonstrations and not the last few."""
    ramp_steps: int = 10
    sure: float = 0.8
    """Share of right operators in the first phase."""
    doubt: float = 0.4
    """Share of right operators in the second phase."""
    word_weight: float = 5.0
    operator_weight: float = 5.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """How the warmed policy does on held-out tasks, in process."""

    solve_rate: float
    valid_rate: float
    read_rate: float
    num_tasks: int


def warm_up(
    model: Qwen3MoeForCausalLM,
    demonstrator: Demonstrator,
    config: WarmupConfig,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Train in place; `on_step` gets each step's number and loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, config))
    model.train()
    for step, batch in enumerate(_batches(demonstrator, config), start=1):
        loss = _loss(model, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        on_step(step, float(loss.detach()))
    model.eval()


def measure(
    model: Qwen3MoeForCausalLM, demonstrator: Demonstrator, *, num_tasks: int, temperature: float, seed: int
) -> Measured:
    """Simulated held-out episodes, one per task."""
    tasks = list(itertools.islice(generate("heldout", seed=seed), num_tasks))
    episodes = simulate(
        model, demonstrator.tokenizer, demonstrator.form, demonstrator.script, tasks, temperature=temperature, seed=seed
    )
    return Measured(
        solve_rate=sum(e.solved for e in episodes) / num_tasks,
        valid_rate=sum(e.valid for e in episodes) / num_tasks,
        read_rate=sum(e.read for e in episodes) / num_tasks,
        num_tasks=num_tasks,
    )


def _rate(step: int, config: WarmupConfig) -> float:
    """Linear ramp, linear decay to a third; the second phase decays to nothing."""
    if step < config.sure_steps:
        return min(1.0, (step + 1) / config.ramp_steps) * (1.0 - 0.67 * step / config.sure_steps)
    left = 1.0 - (step - config.sure_steps) / config.doubt_steps
    return left * config.doubt_learning_rate / config.learning_rate


def _batches(demonstrator: Demonstrator, config: WarmupConfig) -> Iterator[list[Demonstration]]:
    for right, steps in ((config.sure, config.sure_steps), (config.doubt, config.doubt_steps)):
        stream = demonstrator.stream(right=right, seed=config.seed)
        for _ in range(steps):
            yield list(itertools.islice(stream, config.batch))


def _loss(model: Qwen3MoeForCausalLM, batch: list[Demonstration]) -> torch.Tensor:
    """Weighted cross-entropy; only positions with a weight reach the vocabulary."""
    ids, weights, attention = _pad(batch, int(model.config.pad_token_id))  # type: ignore[arg-type]
    hidden = model.model(input_ids=ids, attention_mask=attention).last_hidden_state[:, :-1]
    targets, weights = ids[:, 1:], weights[:, 1:]
    used = weights > 0
    losses = functional.cross_entropy(model.lm_head(hidden[used]), targets[used], reduction="none")
    return (losses * weights[used]).sum() / weights.sum()


def _pad(batch: list[Demonstration], pad: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    width = max(len(d.ids) for d in batch)
    ids = torch.tensor([d.ids + [pad] * (width - len(d.ids)) for d in batch])
    weights = torch.tensor([d.weights + [0.0] * (width - len(d.ids)) for d in batch])
    attention = torch.tensor([[1] * len(d.ids) + [0] * (width - len(d.ids)) for d in batch])
    return ids, weights, attention
