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
from transformers import Qwen3MoeForCausalLM

from lego_core.tiny.demonstrations import Demonstration, Demonstrator
from lego_core.tiny.router_noise import noisy_routers
from lego_core.tiny.simulation import simulate
from lego_harness.tasks.synth import generate

_UNDISTORTED = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmupConfig:
    """Every input of the warm-up; part of the build cache's key."""

    sure_steps: int = 120
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
    margin: float = 0.6
    """Factor on the logits of every target but the operator; see `_emphasis`."""
    word_weight: float = 10.0
    operator_weight: float = 5.0
    turn_weight: float = 5.0
    turn_margin: float = 0.3
    """As `margin`, for the tokens that decide which turn it is: read, edit or finish. A policy that is
    less than certain there loses the thread within a few optimizer steps."""
    operator_margin: float = 0.3
    """As `margin`, for deciding on *some* operator. Punishing wrong operators lifts every other token;
    without this distance between the two, rubbish comes up before the right one does."""
    router_noise: float = 0.6
    """See `router_noise`: without it one seed in three loses a word to a router's sudden turn."""
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
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.learning_rate, betas=(0.9, 0.98), weight_decay=0.0
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, config))
    model.train()
    with noisy_routers(model, config.router_noise, seed=config.seed):
        for step, batch in enumerate(_batches(demonstrator, config), start=1):
            loss = _loss(model, batch, demonstrator.operator_ids(), config)
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
        model,
        demonstrator.tokenizer,
        demonstrator.form,
        demonstrator.script,
        tasks,
        temperature=temperature,
        seed=seed,
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


def _loss(
    model: Qwen3MoeForCausalLM, batch: list[Demonstration], operators: list[int], config: WarmupConfig
) -> torch.Tensor:
    """Weighted cross-entropy of the replies; only their positions reach the vocabulary."""
    pad = int(model.config.pad_token_id)  # type: ignore[arg-type]
    width = max(len(d.ids) for d in batch)
    ids = torch.tensor([d.ids + [pad] * (width - len(d.ids)) for d in batch])
    attention = torch.tensor([[1] * len(d.ids) + [0] * (width - len(d.ids)) for d in batch])
    weights, softness = _emphasis(batch, width, config)
    hidden = model.model(input_ids=ids, attention_mask=attention).last_hidden_state[:, :-1]
    used = weights > 0
    logits = model.lm_head(hidden[used]) * softness[used][:, None]
    losses = functional.cross_entropy(logits, ids[:, 1:][used], reduction="none")
    decides = softness[used] == _UNDISTORTED
    some_operator = _surprise(logits[decides] * config.operator_margin, operators)
    losses = losses + torch.zeros_like(losses).masked_scatter(decides, some_operator)
    return (losses * weights[used]).sum() / weights.sum()


def _surprise(logits: torch.Tensor, accepted: list[int]) -> torch.Tensor:
    """`[N]` minus the log-probability that the token is one of the accepted ones."""
    return logits.logsumexp(-1) - logits[:, accepted].logsumexp(-1)


def _emphasis(
    batch: list[Demonstration], width: int, config: WarmupConfig
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and logit factors `[B, T − 1]`, indexed by the position that predicts.

    The operator's factor is 1, so that its probability is the demonstrated one. Everything else is
    certain and gets `margin` < 1: the policy must be surer than the loss asks for, which keeps an
    episode of a hundred tokens well-formed at temperature 1.
    """
    weights = torch.zeros(len(batch), width - 1)
    softness = torch.full((len(batch), width - 1), config.margin)
    for row, demonstration in enumerate(batch):
        weights[row, : len(demonstration.ids) - 1] = torch.tensor(
            demonstration.replied[1:], dtype=torch.float32
        )
        for at in demonstration.turns_at:
            weights[row, at - 1] = config.turn_weight
            softness[row, at - 1] = config.turn_margin
        weights[row, demonstration.word_at - 1] = config.word_weight
        weights[row, demonstration.operator_at - 1] = config.operator_weight
        softness[row, demonstration.operator_at - 1] = _UNDISTORTED
    return weights, softness
