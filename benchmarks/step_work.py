"""What both trainers are given: a tiny Qwen3-MoE, rollouts of ragged lengths, and how often.

    WORK/model          its checkpoint
    WORK/rollouts.npz   ids `[R, T]`, 0 behind each end, and `[R]` lengths, prompts and advantages

Owns the sizes and what a step of them computes at least. Trains nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LAYERS, HIDDEN, EXPERTS = 4, 64, 8
CLIP_LOW, CLIP_HIGH = 3e-4, 4e-4
LEARNING_RATE = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """One row of the table."""

    length: int
    """Tokens of the longest rollout; the shortest has half as many."""
    vocab: int
    num_rollouts: int
    rows: int
    """Rollouts of one forward pass, where each is a row; a packed one has as many tokens."""
    steps: int = 2
    """Behind one that warms up; the fastest counts."""


def prepare(work: Path, size: Size) -> None:
    """Write what both are given."""
    from tests.support.tiny_model import build_random_model

    build_random_model(
        work / "model", vocab=size.vocab, layers=LAYERS, hidden=HIDDEN, experts=EXPERTS, init_std=0.02
    )
    random = np.random.default_rng(size.length)
    lengths = np.linspace(size.length // 2, size.length, size.num_rollouts).astype(np.int64)
    ids = random.integers(1, size.vocab, (size.num_rollouts, size.length))
    ids[np.arange(size.length) >= lengths[:, None]] = 0
    advantages = np.where(np.arange(size.num_rollouts) % 2, -1.0, 1.0)
    np.savez(work / "rollouts.npz", ids=ids, lengths=lengths, prompts=lengths // 4, advantages=advantages)


def shape(work: Path) -> tuple[list[int], list[int]]:
    """`[R]` lengths of the rollouts and of their prompts."""
    with np.load(work / "rollouts.npz") as stored:
        return stored["lengths"].tolist(), stored["prompts"].tolist()


def multiplications(model: Path, lengths: list[int], prompts: list[int]) -> float:
    """Floating-point operations of the matrix products of a step: one pass forward and twice that backward,
    nothing computed again. Logits are those of sampled tokens, attention is causal."""
    c: dict[str, Any] = json.loads((model / "config.json").read_text())
    heads, keys, head = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    attention = c["hidden_size"] * head * (2 * heads + 2 * keys)
    experts = 3 * c["num_experts_per_tok"] * c["hidden_size"] * c["moe_intermediate_size"]
    layer = attention + experts + c["hidden_size"] * EXPERTS
    of_tokens = sum(lengths) * c["num_hidden_layers"] * layer
    of_logits = (sum(lengths) - sum(prompts)) * c["hidden_size"] * c["vocab_size"]
    of_pairs = sum(n * n for n in lengths) * c["num_hidden_layers"] * heads * head
    return 3.0 * 2 * (of_tokens + of_logits + of_pairs)
