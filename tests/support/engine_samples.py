"""Rollouts straight from an engine, without a harness: contexts are random ids."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lego_core.inference import call_sample
from lego_core.types import Sample
from lego_harness.proxy.upstream import Engine
from lego_harness.types import GenerateRequest, Generation, Sampling


def request(
    name: str, *, context: int = 50, sampled: int = 100, vocab: int = 512, **changes
) -> GenerateRequest:
    """A call with a context drawn from `name`'s own seed."""
    seed = sum(name.encode()) * 7919
    ids = np.random.default_rng(seed).integers(0, vocab, context).astype(np.int32)
    sampling = Sampling(max_tokens=sampled, seed=seed, temperature=changes.pop("temperature", 1.0))
    return GenerateRequest(request_id=name, context_ids=ids, sampling=sampling, **{"stop_ids": (), **changes})


def as_sample(call: GenerateRequest, reply: Generation, advantage: float = 1.0) -> Sample:
    """The whole call as one sample, with the version that sampled it."""
    sample = call_sample.as_sample(call, reply, advantage=advantage)
    return replace(sample, versions=np.where(sample.mask, reply.policy_version, -1).astype(np.int32))


async def sample_many(engine: Engine, calls: list[GenerateRequest]) -> list[Sample]:
    """All calls at once."""
    replies = await asyncio.gather(*[engine.generate(call) for call in calls])
    return [as_sample(call, reply) for call, reply in zip(calls, replies, strict=True)]


def native_routes(model_dir: Path, ids: NDArray[np.int32]) -> NDArray[np.int64]:
    """`[T, L, K]` experts that transformers chooses for `ids` in fp32."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    layers: list[torch.Tensor] = []
    for layer in model.model.layers:
        layer.mlp.gate.register_forward_hook(lambda _m, _i, out: layers.append(out[2]))
    with torch.inference_mode():
        model(torch.from_numpy(ids.astype(np.int64))[None], use_cache=False)
    return torch.stack(layers, 1).numpy()
