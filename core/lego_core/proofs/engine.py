"""The engine answers with what training needs: ids, their log-probabilities, and `[n−1, L, K]` routes.

Owns the calls whose answers the other proofs use. Reads an engine through its protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lego_core.model_config import read_config, vocab_size
from lego_core.proofs.told import Told
from lego_harness.errors import EngineError
from lego_harness.proxy.upstream import Engine
from lego_harness.types import GenerateRequest, Generation, Sampling

NUM_CALLS, CONTEXT, SAMPLED = 6, 40, 60
REMEDY = "use the pinned vLLM; an engine that leaves this out cannot be trained with"


def questions(vocab: int, temperature: float) -> list[GenerateRequest]:
    """Calls with random contexts, each of its own seed."""
    return [
        GenerateRequest(
            request_id=f"proof-{seed}",
            context_ids=np.random.default_rng(seed).integers(0, vocab, CONTEXT).astype(np.int32),
            sampling=Sampling(temperature=temperature, max_tokens=SAMPLED, seed=seed),
            stop_ids=(),
        )
        for seed in range(NUM_CALLS)
    ]


async def ask(
    engine: Engine, model_dir: Path, temperature: float
) -> tuple[list[GenerateRequest], list[Generation]]:
    """All questions at once, and their answers. Raises EngineError."""
    calls = questions(vocab_size(model_dir), temperature)
    return calls, list(await asyncio.gather(*[engine.generate(call) for call in calls]))


def prove_answers(
    calls: Sequence[GenerateRequest], replies: Sequence[Generation], *, model_dir: Path, wants_routes: bool
) -> Told:
    """Shapes and ranges of what came back."""
    config, vocab = read_config(model_dir), vocab_size(model_dir)
    shape = (config.get("num_hidden_layers"), config.get("num_experts_per_tok"))
    for call, reply in zip(calls, replies, strict=True):
        wrong = _wrong(call, reply, shape, vocab, wants_routes)
        if wrong:
            return Told(name="engine", status="failed", evidence=wrong, remedy=REMEDY)
    tokens = sum(len(reply.ids) for reply in replies)
    routes = f", routes [n−1, {shape[0]}, {shape[1]}]" if wants_routes else ", no routes wanted"
    return Told(name="engine", status="passed", evidence=f"{tokens} ids with their log-probabilities{routes}")


def _wrong(
    call: GenerateRequest, reply: Generation, shape: tuple[object, object], vocab: int, wants_routes: bool
) -> str:
    n, m = len(call.context_ids), len(reply.ids)
    if m == 0 or reply.ids.min() < 0 or reply.ids.max() >= vocab:
        return f"{m} ids came back, expected at least one, each below {vocab}"
    if len(reply.logprobs) != m or not np.isfinite(reply.logprobs).all() or reply.logprobs.max() > 1e-6:
        return f"{len(reply.logprobs)} log-probabilities for {m} ids, expected as many, each at most 0"
    if not wants_routes:
        return ""
    found = None if reply.routes is None else reply.routes.shape
    if found != (n + m - 1, *shape):
        return f"routes {found} for {n} + {m} ids, expected {(n + m - 1, *shape)}"
    return "routes are missing on some positions" if (reply.routes == -1).any() else ""


def failed_start(error: EngineError) -> list[Told]:
    """Reports an engine that did not start: it could not, or it answers with other weights than were pushed."""
    if "weight canary" in str(error):
        fine = Told(name="engine", status="passed", evidence="it starts")
        bad = Told(name="weight_sync", status="failed", evidence=str(error), remedy=REMEDY)
        return [fine, bad]
    remedy = "see the log of the engine; lower engine.kv_cache_gb or engine.max_model_len"
    return [Told(name="engine", status="failed", evidence=str(error), remedy=remedy)]
