"""Nothing an engine says is believed before it was checked here.

Owns the contract of a `Generation`; a breach is an EngineError that names it. Returns arrays of the
promised types, and changes no value.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lego_harness.errors import EngineError
from lego_harness.types import GenerateRequest, Generation, LogProbs, Routes, TokenIds

LOGPROB_SLACK = 1e-3
"""Rounding may lift a log-probability of a sure token slightly above zero."""


def checked(
    generation: Generation, request: GenerateRequest, *, vocab_size: int, expert_shape: tuple[int, ...] | None
) -> Generation:
    """The generation, or EngineError. `expert_shape` is `(L, K)` of earlier rows, None if unknown."""
    ids = _ids(generation, request, vocab_size)
    if generation.finish_reason not in ("stop", "length"):
        raise EngineError(f"engine: finish reason {generation.finish_reason!r}, expected 'stop' or 'length'")
    rows = len(request.context_ids) + len(ids) - 1 - request.routes_from
    return replace(
        generation,
        ids=ids,
        logprobs=_logprobs(generation, len(ids)),
        routes=_routes(generation, rows, expert_shape),
        versions=_versions(generation, len(ids)),
    )


def _ids(generation: Generation, request: GenerateRequest, vocab_size: int) -> TokenIds:
    ids = np.asarray(generation.ids)
    if ids.ndim != 1 or len(ids) == 0 or not np.issubdtype(ids.dtype, np.integer):
        raise EngineError(
            f"engine: sampled ids of shape {ids.shape} and type {ids.dtype}, expected [m ≥ 1] integers"
        )
    if len(ids) > request.sampling.max_tokens:
        raise EngineError(
            f"engine: {len(ids)} sampled ids, at most {request.sampling.max_tokens} were asked for"
        )
    if ids.min() < 0 or ids.max() >= vocab_size:
        raise EngineError(
            f"engine: sampled ids in [{ids.min()}, {ids.max()}], the vocabulary has {vocab_size}"
        )
    for stop in request.stop_ids:
        if len(early := np.flatnonzero(ids[:-1] == stop)):
            raise EngineError(f"engine: stop id {stop} at {early[0]}, and sampling went on to {len(ids)} ids")
    return ids.astype(np.int32)


def _versions(generation: Generation, num_ids: int) -> NDArray[np.int32] | None:
    if generation.versions is None:
        return None
    versions = np.asarray(generation.versions)
    if versions.shape != (num_ids,) or not np.issubdtype(versions.dtype, np.integer):
        raise EngineError(f"engine: policy versions of shape {versions.shape} for {num_ids} sampled ids")
    if versions[0] != generation.policy_version or (np.diff(versions) < 0).any():
        raise EngineError(
            f"engine: policy versions {versions.tolist()} of a call of version {generation.policy_version}, "
            "expected them to begin with it and never to fall"
        )
    return versions.astype(np.int32)


def _logprobs(generation: Generation, num_ids: int) -> LogProbs:
    logprobs = np.asarray(generation.logprobs)
    if logprobs.shape != (num_ids,) or not np.issubdtype(logprobs.dtype, np.floating):
        raise EngineError(f"engine: log-probabilities of shape {logprobs.shape} for {num_ids} sampled ids")
    bad = np.flatnonzero(~(np.isfinite(logprobs) & (logprobs <= LOGPROB_SLACK)))
    if len(bad):
        raise EngineError(
            f"engine: log-probability {logprobs[bad[0]]} at sampled position {bad[0]}, expected ≤ 0"
        )
    return logprobs.astype(np.float32)


def _routes(generation: Generation, rows: int, expert_shape: tuple[int, ...] | None) -> Routes | None:
    if generation.routes is None:
        if expert_shape is not None:
            raise EngineError("engine: no routing rows, earlier turns of the rollout had them")
        return None
    routes = np.asarray(generation.routes)
    if routes.ndim != 3 or len(routes) != rows or not np.issubdtype(routes.dtype, np.integer):
        raise EngineError(
            f"engine: routing rows of shape {routes.shape} {routes.dtype}, expected [{rows}, L, K]"
        )
    if expert_shape is not None and routes.shape[1:] != expert_shape:
        raise EngineError(
            f"engine: routing rows [L, K] = {routes.shape[1:]}, earlier turns had {expert_shape}"
        )
    if routes.size and (routes.min() < -1 or routes.max() > np.iinfo(np.int16).max):
        raise EngineError(f"engine: expert ids in [{routes.min()}, {routes.max()}], expected int16 ≥ −1")
    return routes.astype(np.int8 if routes.dtype == np.int8 else np.int16)
