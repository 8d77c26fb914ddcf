"""Log-probabilities of trained tokens under the policy.

Only hidden states that predict a trained token reach the output head: exact, and the head is most
of the work of a small model. Temperature must be the sampler's; top-p and top-k must have been off
when the tokens were sampled, since the trainer renormalises nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lego_core.batching.packing import MicroBatch
from lego_core.training.model import Policy


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenScores:
    """Of the N trained tokens of a micro-batch, in row-major order."""

    logp: Tensor
    """`[N]`, with gradient where one is recorded."""
    entropy: Tensor
    """`[N]`, detached, nats."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceBatch:
    """A micro-batch on the trainer's device; shapes as in `MicroBatch`."""

    ids: Tensor
    mask: Tensor
    routes: Tensor | None
    rollout: Tensor
    advantage: Tensor
    rollout_logprobs: Tensor


def to_device(batch: MicroBatch, device: torch.device, dtype: torch.dtype) -> DeviceBatch:
    """Copy to `device`; numbers the loss sees take `dtype`."""
    return DeviceBatch(
        ids=torch.from_numpy(batch.ids).to(device),
        mask=torch.from_numpy(batch.mask).to(device),
        routes=None if batch.routes is None else torch.from_numpy(batch.routes).to(device),
        rollout=torch.from_numpy(batch.rollout).to(device),
        advantage=torch.from_numpy(batch.advantage).to(device, dtype),
        rollout_logprobs=torch.from_numpy(batch.rollout_logprobs).to(device, dtype),
    )


def score_tokens(model: Policy, batch: DeviceBatch, *, temperature: float) -> TokenScores:
    """Log-probability and entropy of every trained token, at `temperature`.

    Padding is on the right, so causal attention needs no mask. Position 0 is never trained.
    """
    hidden = model.model(input_ids=batch.ids, use_cache=False).last_hidden_state
    predicting = hidden[:, :-1][batch.mask[:, 1:]]
    logits = model.lm_head(predicting)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    logprobs = logits.log_softmax(-1)
    targets = batch.ids[batch.mask]
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(-1)
    return TokenScores(logp=logprobs.gather(-1, targets[:, None])[:, 0], entropy=entropy)
