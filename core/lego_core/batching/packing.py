"""Samples of ragged lengths into micro-batches of bounded size: padded rows, or one packed row.

Padded: one sample per row, padded on the right, where causal attention never looks from a real token.
Packed: all samples one after another in a single row, without padding; what two branches of a rollout
have in common lies there once. Each sample is then a `Path` through the row, which its attention
follows; experts, norms and projections see every token once.

Invariant: every sample lands in exactly one micro-batch, deterministically, and each trained token
is scored by the position before it on its own path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lego_core.batching.paths import Path, lay_out, padded_paths
from lego_core.types import Sample


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    """B rows of T positions; N trained tokens, sample by sample."""

    ids: NDArray[np.int64]
    """`[B, T]`, 0 after each padded sample's end."""
    mask: NDArray[np.bool_]
    """`[B, T]` True on trained tokens."""
    lengths: NDArray[np.int64]
    """Of the samples."""
    paths: tuple[Path, ...] | None
    """Paths through the one row, one per sample and one for the filling; None if each sample is a row."""
    routes: NDArray[np.int16] | None
    """`[B, T, L, K]`, −1 where nothing is replayed; None when no sample has routes."""
    predictor: NDArray[np.int64]
    """`[N]` index into the flattened `[B·T]` of the position that predicts the token."""
    targets: NDArray[np.int64]
    """`[N]` the token."""
    rollout: NDArray[np.int64]
    """`[N]` index of each trained token's rollout in the batch."""
    advantage: NDArray[np.float64]
    """`[N]`"""
    rollout_logprobs: NDArray[np.float32]
    """`[N]`"""
    versions: NDArray[np.int64]
    """`[N]` policy version that sampled it."""


def pack(
    samples: Sequence[Sample], *, max_tokens: int, version: int = 0, packed: bool = False, multiple: int = 1
) -> tuple[list[MicroBatch], int]:
    """Micro-batches of at most `max_tokens` positions, and the number of rollouts.

    The length of a packed row is a multiple of `multiple`, so that it can be cut into that many slices. A sample
    longer than `max_tokens` gets a micro-batch of its own. `version` is that of the trainer's weights, for samples
    that do not say which version sampled them."""
    rollouts = {r: i for i, r in enumerate(dict.fromkeys(s.rollout_id for s in samples))}
    if packed:
        samples = sorted(samples, key=lambda s: rollouts[s.rollout_id])  # branches beside each other
        bins = fill([len(s.ids) for s in samples], max_tokens=max_tokens)
    else:
        bins = split_lengths([len(s.ids) for s in samples], max_tokens=max_tokens)
    batches = [
        micro_batch([samples[i] for i in members], rollouts, version, packed=packed, multiple=multiple)
        for members in bins
    ]
    return batches, len(rollouts)


def split_lengths(lengths: Sequence[int], *, max_tokens: int) -> list[list[int]]:
    """Indices by padded micro-batch: longest first, so that neighbours need little padding."""
    bins: list[list[int]] = []
    longest = 0
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if bins and longest * (len(bins[-1]) + 1) <= max_tokens:
            bins[-1].append(i)
        else:
            bins.append([i])
            longest = lengths[i]
    return bins


def fill(lengths: Sequence[int], *, max_tokens: int) -> list[list[int]]:
    """Indices by packed micro-batch, in order: as many as fit."""
    bins: list[list[int]] = []
    used = 0
    for i, length in enumerate(lengths):
        if bins and used + length <= max_tokens:
            bins[-1].append(i)
            used += length
        else:
            bins.append([i])
            used = length
    return bins


def micro_batch(
    samples: Sequence[Sample], rollouts: dict[str, int], version: int, *, packed: bool, multiple: int
) -> MicroBatch:
    """One micro-batch of the given samples."""
    every_path, shape = lay_out(samples, multiple=multiple) if packed else padded_paths(samples)
    paths = every_path[: len(samples)]
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
    routes = _no_routes(samples, shape)
    for sample, path in zip(samples, paths, strict=True):
        ids.reshape(-1)[path.rows] = sample.ids
        mask.reshape(-1)[path.rows] |= sample.mask
        if routes is not None and sample.routes is not None:
            own = path.rows[path.start :]
            routes.reshape(-1, *routes.shape[2:])[own] = sample.routes[path.start :]
    counts = [int(s.mask.sum()) for s in samples]
    before = [p.rows[np.flatnonzero(s.mask) - 1] for s, p in zip(samples, paths, strict=True)]
    return MicroBatch(
        ids=ids,
        mask=mask,
        lengths=np.array([len(s.ids) for s in samples], np.int64),
        paths=every_path if packed else None,
        routes=routes,
        predictor=np.concatenate(before),
        targets=np.concatenate([s.ids[s.mask] for s in samples]).astype(np.int64),
        rollout=np.repeat([rollouts[s.rollout_id] for s in samples], counts),
        advantage=np.repeat([s.advantage for s in samples], counts),
        rollout_logprobs=np.concatenate([s.rollout_logprobs[s.mask] for s in samples]),
        versions=np.concatenate([_versions(s, version) for s in samples]),
    )


def _versions(sample: Sample, version: int) -> NDArray[np.int64]:
    if sample.versions is None:
        return np.full(int(sample.mask.sum()), version, np.int64)
    return sample.versions[sample.mask].astype(np.int64)


def _no_routes(samples: Sequence[Sample], shape: tuple[int, int]) -> NDArray[np.int16] | None:
    present = next((s.routes for s in samples if s.routes is not None), None)
    return None if present is None else np.full((*shape, *present.shape[1:]), -1, np.int16)
