"""Attention and its relatives over a packed row: each sample's path by itself.

Experts, norms and the head look at one token at a time and take the packed row as it is. Layers that mix
tokens run once per path, on the tokens of that path in their order: softmax attention on their
queries, keys and values, Qwen3.5's gated delta rule on their hidden states. No sample sees another
one, no square matrix masks anything, positions are exact. Invariant: packed equals unpacked.

With context parallelism a rank holds one slice of the row. Softmax attention then exchanges slices
for heads and back (DeepSpeed-Ulysses, arXiv 2309.14509): every rank attends over the whole row with
its share of the heads. The gated delta rule, whose cost is linear, gets the whole row on every rank
and keeps its slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from lego_core.rank_fit import require_heads
from lego_core.training.exchange import Group, heads_to_row, row_to_heads, whole_row
from lego_core.training.model import Policy

ATTENTION = "lego_paths"


@dataclass(frozen=True, kw_only=True, slots=True)
class DevicePath:
    """`lego_core.batching.paths.Path` on the trainer's device."""

    rows: Tensor
    start: int


@dataclass(slots=True)
class Mixing:
    """What the mixers of one model follow at the moment."""

    paths: Sequence[DevicePath] | None = None
    group: Group | None = None
    """The ranks that hold slices of one row; None when the row is whole."""


def install_paths(model: Policy, group: Group | None = None) -> Mixing:
    """Let every token mixer follow the returned `Mixing`. Raises UsageError if the ranks of `group` cannot share
    the heads. transformers makes no mask for an attention it does not know."""
    if group is not None:
        require_heads(model.config.num_attention_heads, model.config.num_key_value_heads, group.size)
    mixing = Mixing(group=group)
    ALL_ATTENTION_FUNCTIONS.register(ATTENTION, _attend)
    model.config._attn_implementation = ATTENTION
    for layer in model.model.layers:
        if hasattr(layer, "self_attn"):
            layer.self_attn.mixing = mixing
        if hasattr(layer, "linear_attn"):
            layer.linear_attn.forward = partial(_by_path, mixing, layer.linear_attn.forward)
    return mixing


@contextmanager
def following(mixing: Mixing, paths: Sequence[DevicePath] | None) -> Iterator[None]:
    """Within the context mixers follow `paths`; backward must be inside too."""
    mixing.paths = paths
    try:
        yield
    finally:
        mixing.paths = None


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, _mask: None, *, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """`[1, heads, t, d]` of this rank's slice → `[1, t, heads, d]`."""
    mixing: Mixing = module.mixing
    assert mixing.paths is not None
    if mixing.group is not None:
        query, key, value = (heads_to_row(x, mixing.group) for x in (query, key, value))
    outputs = [
        F.scaled_dot_product_attention(
            query[:, :, path.rows],
            key[:, :, path.rows],
            value[:, :, path.rows],
            is_causal=True,
            scale=scaling,
            enable_gqa=query.shape[1] != key.shape[1],
        )[:, :, path.start :]
        for path in mixing.paths
    ]
    joined = torch.cat(outputs, 2)
    if mixing.group is not None:
        joined = row_to_heads(joined, mixing.group)
    return joined.transpose(1, 2).contiguous(), None


def _by_path(mixing: Mixing, forward: Callable[..., Tensor], hidden_states: Tensor, **_: Any) -> Tensor:
    """`[1, t, H]` of this rank's slice → the same; without a mask the mixer is causal."""
    assert mixing.paths is not None
    row = hidden_states if mixing.group is None else whole_row(hidden_states, mixing.group)
    joined = torch.cat([forward(row[:, p.rows])[:, p.start :] for p in mixing.paths], 1)
    if mixing.group is None:
        return joined
    length = hidden_states.shape[1]
    return joined[:, mixing.group.rank * length : (mixing.group.rank + 1) * length]


def positions(paths: Sequence[DevicePath], total: int) -> Tensor:
    """`[1, total]` place of each packed token on the path that owns it."""
    placed = torch.zeros(1, total, dtype=torch.long, device=paths[0].rows.device)
    for path in paths:
        places = torch.arange(len(path.rows), device=path.rows.device)
        placed[0, path.rows[path.start :]] = places[path.start :]
    return placed
