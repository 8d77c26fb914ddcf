"""Expert parallelism: each rank of a group holds some of the experts, and tokens travel to them.

    route ─▶ sort by expert ─▶ all-to-all ─▶ own experts ─▶ all-to-all ─▶ weigh and add

Invariant: the same sum over the same k experts as without it, whatever number of tokens each rank
brings. Every rank of the group must run the layer equally often.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lego_core.rank_fit import require_experts
from lego_core.training.exchange import Group, exchange
from lego_core.training.model import Policy


def split_experts(model: Policy, group: Group) -> list[Any]:
    """Keep only this rank's experts in every sparse layer; returns those modules. Raises UsageError."""
    modules = [layer.mlp.experts for layer in model.model.layers if hasattr(layer.mlp, "experts")]
    num_experts = modules[0].num_experts if modules else 0
    require_experts(num_experts, group.size)
    for experts in modules:
        own = experts.num_experts // group.size
        for name, fused in list(experts.named_parameters()):
            part = fused.detach()[group.rank * own : (group.rank + 1) * own].clone()
            setattr(experts, name, nn.Parameter(part))
        experts.num_experts = own
        experts.forward = partial(_dispatch, group, own, experts.forward)
    return modules


def _dispatch(
    group: Group, own: int, forward: Callable[..., Tensor], hidden: Tensor, ids: Tensor, weights: Tensor
) -> Tensor:
    """`[n, H]` hidden states, `[n, k]` experts and weights → `[n, H]`."""
    k = ids.shape[1]
    order = ids.reshape(-1).argsort(stable=True)
    wanted = ids.reshape(-1).bincount(minlength=own * group.size)
    ones = [1] * group.size
    offered = exchange(wanted.reshape(group.size, own), group, received=ones, sent=ones)
    sent, received = wanted.reshape(group.size, own).sum(1).tolist(), offered.sum(1).tolist()
    arrived = exchange(hidden[order // k], group, received=received, sent=sent)
    local = torch.arange(own, device=ids.device).repeat(group.size).repeat_interleave(offered.reshape(-1))
    # One row of nothing more: where no token arrived every parameter still gets a gradient, as FSDP needs.
    arrived, local = F.pad(arrived, (0, 0, 0, 1)), F.pad(local, (0, 1))
    answers = forward(arrived, local[:, None], weights.new_ones(len(local), 1))[:-1]
    returned = exchange(answers, group, received=sent, sent=received)
    weighed = returned * weights.reshape(-1)[order, None].to(returned.dtype)
    return torch.zeros_like(hidden).index_add(0, order // k, weighed)
