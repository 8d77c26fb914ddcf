"""A call that new weights cut into segments: how it continues, and how its segments become one reply.

    context ─▶ segment by version 3 ✂ publish 4 ─▶ segment by version 4 … ─▶ stop

Invariant: each segment keeps the ids, log-probabilities and routing rows of the weights that sampled it. A
segment asks for rows from its own last context position on, so its prefill never replaces a row of the segment
before. Joined, they are one row per input position, as for an uncut call. Pure.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from lego_harness.types import GenerateRequest, Generation, token_versions


def remaining(request: GenerateRequest, so_far: Generation | None, cuts: int) -> GenerateRequest:
    """What is left to ask after `cuts` cuts left `so_far`: the same call with its context extended by what was
    sampled. The seed changes with every cut; otherwise a segment would draw the random numbers of the first."""
    if cuts == 0:
        return request
    sampled = 0 if so_far is None else len(so_far.ids)
    context = request.context_ids if so_far is None else np.concatenate([request.context_ids, so_far.ids])
    seed = request.sampling.seed
    return replace(
        request,
        request_id=f"{request.request_id}.s{cuts}",
        context_ids=context,
        sampling=replace(
            request.sampling,
            max_tokens=request.sampling.max_tokens - sampled,
            seed=None if seed is None else _segment_seed(seed, cuts),
        ),
        routes_from=request.routes_from if so_far is None else len(context) - 1,
    )


def joined(first: Generation | None, second: Generation) -> Generation:
    """Two consecutive segments as one; ends as the second did."""
    if first is None:
        return second
    return Generation(
        ids=np.concatenate([first.ids, second.ids]),
        logprobs=np.concatenate([first.logprobs, second.logprobs]),
        routes=None
        if first.routes is None or second.routes is None
        else np.concatenate([first.routes, second.routes]),
        finish_reason=second.finish_reason,
        policy_version=first.policy_version,
        versions=np.concatenate([_versions(first), _versions(second)]),
    )


def _versions(generation: Generation) -> np.ndarray:
    return token_versions(generation.versions, generation.policy_version, len(generation.ids))


def _segment_seed(seed: int, cuts: int) -> int:
    """In [0, 2³¹)."""
    return int.from_bytes(hashlib.sha256(f"{seed}/segment/{cuts}".encode()).digest()[:4]) >> 1
