"""A model that can be asked for log-probabilities of a micro-batch: routes replayed, paths followed.

Everything that belongs to a micro-batch stays bound while `bound` lasts, so that a backward pass that
recomputes activations replays the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from lego_core.training.logprobs import DeviceBatch, TokenScores, score_tokens
from lego_core.training.model import Policy, load_policy
from lego_core.training.ranks import ALONE, Ranks
from lego_core.training.routing_replay import ReplayRouter, RouterAgreement, install_replay, replaying
from lego_core.training.sharding import Sharded, score_sharded
from lego_core.training.token_mixing import Mixing, following, install_paths


@dataclass(frozen=True, kw_only=True, slots=True)
class Scorer:
    """A policy or its reference."""

    model: Policy
    routers: Sequence[tuple[int, ReplayRouter]]
    """By global layer; empty for a dense model."""
    mixing: Mixing
    temperature: float
    sharded: Sharded | None = None
    """The same model behind FSDP; None on one rank."""

    @contextmanager
    def bound(self, batch: DeviceBatch, agreement: RouterAgreement | None = None) -> Iterator[TokenScores]:
        """Scores of the batch; backward belongs inside. `agreement` collects what routers wanted."""
        with replaying(self.routers, batch.routes, agreement), following(self.mixing, batch.paths):
            if self.sharded is None:
                yield score_tokens(self.model, batch, temperature=self.temperature)
            else:
                yield score_sharded(self.sharded, batch, temperature=self.temperature)

    @torch.no_grad()
    def logprobs(self, batches: Sequence[DeviceBatch]) -> list[Tensor]:
        """`[N]` log-probabilities of each micro-batch, without gradient."""
        scores: list[Tensor] = []
        for batch in batches:
            with self.bound(batch) as score:
                scores.append(score.logp)
        return scores


def load_scorer(
    model_dir: Path,
    *,
    dtype: torch.dtype,
    device: torch.device,
    experts: str,
    temperature: float,
    packed: bool = False,
    checkpointed: bool = False,
    ranks: Ranks = ALONE,
) -> Scorer:
    """The checkpoint in `model_dir`; raises UsageError when it cannot be loaded or replayed. `packed`: its batches
    come as paths. `checkpointed`: a layer's activations are recomputed in backward, so that only its input and the output
    of its softmax attention are kept."""
    # Sharding moves each rank's part by itself: the whole, in fp32, need not fit one GPU.
    first = device if ranks.size == 1 else torch.device("cpu")
    model = load_policy(model_dir, dtype=dtype, device=first, experts=experts)
    mixing = install_paths(model, ranks.context) if packed else Mixing()
    if checkpointed:
        for layer in model.model.layers:
            layer.forward = _checkpointed(layer.forward)
    routers = install_replay(model)
    sharded = Sharded(model, ranks) if ranks.size > 1 else None
    return Scorer(model=model, routers=routers, mixing=mixing, temperature=temperature, sharded=sharded)


def _checkpointed(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Attention's output is as large as the layer's input; computing it again would take the square of the length."""
    attention = torch.ops.aten
    kept = [
        attention._scaled_dot_product_flash_attention_for_cpu.default,
        attention._scaled_dot_product_flash_attention.default,
        attention._scaled_dot_product_efficient_attention.default,
        attention._scaled_dot_product_cudnn_attention.default,
    ]
    context = partial(create_selective_checkpoint_contexts, kept)
    return partial(checkpoint, forward, use_reentrant=False, preserve_rng_state=False, context_fn=context)
