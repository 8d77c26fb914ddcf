"""Attention and its relatives over a packed row: each sample's path by itself.

Experts, norms and the head look at one token at a time and take the packed row as it is. Modules
that mix tokens (softmax attention, Qwen3.5's gated delta rule) run once for every path, on the
tokens of that path in their order with their own positions: no sample sees another one, nothing is
masked by a square matrix, and positions are exact. Invariant: packed equals unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from lego_core.training.model import Policy

MIXERS = ("self_attn", "linear_attn")
UNMASKED = "lego_unmasked"


@dataclass(frozen=True, kw_only=True, slots=True)
class DevicePath:
    """`lego_core.batching.paths.Path` on the trainer's device."""

    rows: Tensor
    start: int


@dataclass(slots=True)
class Mixing:
    """What the mixers of one model follow at the moment."""

    paths: Sequence[DevicePath] | None = None


def install_paths(model: Policy) -> Mixing:
    """Let every token mixer follow the returned `Mixing`; without paths they run as they are."""
    mixing = Mixing()
    # transformers masks samples in one row from each other by a square matrix, unless it does not know
    # the attention: sdpa under another name gets none, and is causal.
    ALL_ATTENTION_FUNCTIONS.register(UNMASKED, sdpa_attention_forward)
    model.config._attn_implementation = UNMASKED
    for layer in model.model.layers:
        for mixer in (getattr(layer, name) for name in MIXERS if hasattr(layer, name)):
            mixer.forward = partial(_by_path, mixing, mixer.forward)
    return mixing


@contextmanager
def following(mixing: Mixing, paths: Sequence[DevicePath] | None) -> Iterator[None]:
    """Within the context mixers follow `paths`; backward must be inside too."""
    mixing.paths = paths
    try:
        yield
    finally:
        mixing.paths = None


def _by_path(mixing: Mixing, forward: Callable[..., Any], hidden_states: Tensor, **kwargs: Any) -> Any:
    if mixing.paths is None:
        return forward(hidden_states=hidden_states, **kwargs)
    kwargs.pop("attention_mask", None)
    is_attention = False
    outputs: list[Tensor] = []
    for path in mixing.paths:
        output = forward(
            hidden_states=hidden_states[:, path.rows],
            attention_mask=None,  # causal, as every mixer is without one
            **{name: _along(path, value) for name, value in kwargs.items()},
        )
        is_attention = isinstance(output, tuple)
        outputs.append((output[0] if is_attention else output)[:, path.start :])
    joined = torch.cat(outputs, 1)
    return (joined, None) if is_attention else joined


def _along(path: DevicePath, value: Any) -> Any:
    """What belongs to positions, `[1, T, …]`, by path; everything else as it is."""
    if isinstance(value, Tensor):
        return value[:, path.rows]
    if isinstance(value, tuple) and value and all(isinstance(item, Tensor) for item in value):
        return tuple(item[:, path.rows] for item in value)
    return value


def positions(paths: Sequence[DevicePath], total: int) -> Tensor:
    """`[1, total]` place of each packed token on the path that owns it."""
    placed = torch.zeros(1, total, dtype=torch.long, device=paths[0].rows.device)
    for path in paths:
        places = torch.arange(len(path.rows), device=path.rows.device)
        placed[0, path.rows[path.start :]] = places[path.start :]
    return placed
