"""Log-probabilities of trained tokens under the policy.

Only hidden states that predict a trained token reach the output head, in chunks whose logits are
computed again in backward: memory grows neither with length × vocabulary nor with the vocabulary. The
head and everything after it are at least float32. Temperature must be the sampler's; top-p and top-k must
have been off when the tokens were sampled: the trainer renormalises nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lego_core.batching.packing import MicroBatch
from lego_core.training.exchange import Group
from lego_core.training.model import Policy
from lego_core.training.token_mixing import DevicePath, positions

LOGITS_PER_CHUNK = {"cpu": 2**22, "cuda": 2**25}
"""Logits of one chunk: a CPU is fastest while they stay in its caches (16 MiB in float32, 1,024 rows of a vocabulary of
4,096), a GPU wants matrices large enough to fill it (128 MiB, 135 rows of Qwen3.5's 248,320)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenScores:
    """For the N trained tokens of a micro-batch, in its order."""

    logp: Tensor
    """`[N]`, with gradient where one is recorded."""
    entropy: Tensor
    """`[N]`, detached, nats."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceBatch:
    """A micro-batch on the trainer's device; shapes as in `MicroBatch`."""

    ids: Tensor
    paths: tuple[DevicePath, ...] | None
    """Paths through the whole row, even if `ids` is a slice of it."""
    positions: Tensor | None
    """`[1, T]`, None where samples are rows."""
    routes: Tensor | None
    predictor: Tensor
    targets: Tensor
    rollout: Tensor
    advantage: Tensor
    rollout_logprobs: Tensor
    versions: Tensor
    is_counted: bool = True
    """False for a micro-batch that only keeps a rank busy while others work."""


def to_device(
    batch: MicroBatch,
    device: torch.device,
    dtype: torch.dtype,
    *,
    context: Group | None = None,
    is_counted: bool = True,
) -> DeviceBatch:
    """Copy to `device`; numbers that the loss sees get `dtype`. With `context`, only this rank's slice of the row
    and the trained tokens that are predicted in it."""
    width = batch.ids.shape[1] // (context.size if context else 1)
    first = width * (context.rank if context else 0)
    row = slice(first, first + width)
    mine = (batch.predictor >= first) & (batch.predictor < first + width) if context else slice(None)

    def on_device(array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(device)

    paths = placed = None
    if batch.paths is not None:
        paths = tuple(DevicePath(rows=on_device(p.rows), start=p.start) for p in batch.paths)
        placed = positions(paths, batch.ids.shape[1])[:, row]
    return DeviceBatch(
        ids=on_device(batch.ids[:, row]),
        paths=paths,
        positions=placed,
        routes=None if batch.routes is None else on_device(batch.routes[:, row]),
        predictor=on_device(batch.predictor[mine] - first),
        targets=on_device(batch.targets[mine]),
        rollout=on_device(batch.rollout[mine]),
        advantage=on_device(batch.advantage[mine]).to(dtype),
        rollout_logprobs=on_device(batch.rollout_logprobs[mine]).to(dtype),
        versions=on_device(batch.versions[mine]),
        is_counted=is_counted,
    )


def score_tokens(
    model: Policy, batch: DeviceBatch, *, temperature: float, chunk: int | None = None
) -> TokenScores:
    """Log-probability and entropy of every trained token, at `temperature`.

    At most `chunk` logits exist at a time; None: as many as suit the device. Padding is on the right and packed samples are apart
    (`token_mixing`), so causal attention needs no mask. Position 0 is never trained.
    """
    where = {} if batch.positions is None else {"position_ids": batch.positions}
    hidden = model.model(input_ids=batch.ids, use_cache=False, **where).last_hidden_state
    predicting = hidden.reshape(-1, hidden.shape[-1])[batch.predictor]
    vocabulary = model.config.vocab_size
    rows = max(1, (chunk or LOGITS_PER_CHUNK[hidden.device.type]) // vocabulary)
    if len(predicting) <= rows:
        return TokenScores(**_score(model.lm_head, predicting, batch.targets, temperature))
    pieces = [
        checkpoint(_score, model.lm_head, states, targets, temperature, use_reentrant=False)
        for states, targets in zip(predicting.split(rows), batch.targets.split(rows), strict=True)
    ]
    return TokenScores(**{name: torch.cat([p[name] for p in pieces]) for name in pieces[0]})


def _score(head: Policy, states: Tensor, targets: Tensor, temperature: float) -> dict[str, Tensor]:
    logprobs = _logits(head, states, temperature).log_softmax(-1)
    # Before the entropy: what is computed again for backward ends with the last thing that backward needs.
    logp = logprobs.gather(-1, targets[:, None])[:, 0]
    with torch.no_grad():
        entropy = -logprobs.exp().mul_(logprobs).sum(-1)
    return {"logp": logp, "entropy": entropy}


def _logits(head: Policy, states: Tensor, temperature: float) -> Tensor:
    """At least float32. Divided by the temperature only if that changes anything, because it costs a copy."""
    precise = torch.promote_types(states.dtype, torch.float32)
    if states.dtype == precise:
        logits = head(states)
    else:
        logits = F.linear(states.to(precise), head.weight.to(precise))
    return logits if temperature == 1 else logits / temperature
