"""The one collective that experts and context parallelism need: all-to-all, with its gradient.

Every rank sends each other rank a run of rows and receives one from each. The gradient travels back the
same way. Gloo and NCCL both have it. Invariant: what was received is in the order of the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Some of the ranks."""

    process_group: Any
    rank: int
    """Of this process among them."""
    size: int


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, received: Sequence[int], sent: Sequence[int], group: Group) -> Tensor:
        ctx.splits, ctx.group = (sent, received), group
        return _all_to_all(rows, received, sent, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        received, sent = ctx.splits
        return _all_to_all(gradients[0], received, sent, ctx.group), None, None, None


def exchange(rows: Tensor, group: Group, *, received: Sequence[int], sent: Sequence[int]) -> Tensor:
    """`[Σ sent, …]` → `[Σ received, …]`; the lists say how many rows go to and come from each rank."""
    return _Exchange.apply(rows, received, sent, group)


def _all_to_all(rows: Tensor, received: Sequence[int], sent: Sequence[int], group: Group) -> Tensor:
    output = rows.new_empty(sum(received), *rows.shape[1:])
    dist.all_to_all_single(output, rows.contiguous(), list(received), list(sent), group=group.process_group)
    return output


def heads_to_row(x: Tensor, group: Group) -> Tensor:
    """`[1, heads, t, d]`, all heads of a slice → `[1, heads / size, t · size, d]`, some of the whole row.

    Fewer key heads than ranks are repeated: each rank then has its own copy.
    """
    if x.shape[1] % group.size:
        x = x.repeat_interleave(group.size // x.shape[1], dim=1)
    _, heads, t, d = x.shape
    sent = x[0].reshape(group.size, heads // group.size, t, d)
    received = _one_each(sent, group)
    return received.transpose(0, 1).reshape(1, heads // group.size, group.size * t, d)


def row_to_heads(x: Tensor, group: Group) -> Tensor:
    """The way back of `heads_to_row`."""
    _, some, length, d = x.shape
    sent = x[0].reshape(some, group.size, length // group.size, d).transpose(0, 1)
    return _one_each(sent, group).reshape(1, some * group.size, length // group.size, d)


def whole_row(x: Tensor, group: Group) -> Tensor:
    """`[1, t, H]` slices → `[1, t · size, H]` on every rank."""
    return _one_each(x.expand(group.size, -1, -1), group).reshape(1, -1, x.shape[-1])


def _one_each(x: Tensor, group: Group) -> Tensor:
    ones = [1] * group.size
    return exchange(x, group, received=ones, sent=ones)
