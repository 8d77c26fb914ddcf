"""Training samples with random ids, masks and routes, for models of `tiny_model`."""

from __future__ import annotations

import numpy as np

from lego_core.types import Sample


def random_sample(
    rollout_id: str,
    length: int = 40,
    *,
    seed: int = 0,
    advantage: float = 1.0,
    vocab: int = 512,
    layers: int = 2,
    experts: int = 8,
    top_k: int = 2,
    routed: bool = True,
    context: int = 10,
) -> Sample:
    """`context` unmasked ids, then about half of the rest sampled; distinct experts per row."""
    rng = np.random.default_rng(seed)
    mask = (np.arange(length) >= context) & (rng.random(length) < 0.5)
    mask[-1] = True
    routes = rng.permuted(np.tile(np.arange(experts, dtype=np.int16), (length, layers, 1)), axis=-1)
    routes = routes[..., :top_k].copy()
    routes[-1] = -1
    return Sample(
        rollout_id=rollout_id,
        ids=rng.integers(0, vocab, length).astype(np.int32),
        mask=mask,
        rollout_logprobs=np.where(mask, -6 - rng.random(length), 0).astype(np.float32),
        advantage=advantage,
        routes=routes if routed else None,
    )
