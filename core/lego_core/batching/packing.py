"""Samples of ragged lengths into padded micro-batches of bounded size.

Invariant: every sample lands in exactly one micro-batch, deterministically. Padding stands on the
right, where causal attention never looks from a real token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lego_core.types import Sample


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    """B samples padded to T; N trained tokens in row-major order."""

    ids: NDArray[np.int64]
    """`[B, T]`, 0 behind each sample's end."""
    mask: NDArray[np.bool_]
    """`[B, T]` True on trained tokens; never in column 0, which nothing predicts."""
    lengths: NDArray[np.int64]
    """`[B]`"""
    routes: NDArray[np.int16] | None
    """`[B, T, L, K]`, −1 where nothing is replayed; None when no sample has routes."""
    rollout: NDArray[np.int64]
    """`[N]` index of each trained token's rollout in the batch."""
    advantage: NDArray[np.float64]
    """`[N]`"""
    rollout_logprobs: NDArray[np.float32]
    """`[N]`"""


def pack(samples: Sequence[Sample], *, max_tokens: int) -> tuple[list[MicroBatch], int]:
    """Micro-batches of at most `max_tokens` padded tokens, and the number of rollouts.

    A sample longer than `max_tokens` gets a micro-batch of its own.
    """
    rollouts = {r: i for i, r in enumerate(dict.fromkeys(s.rollout_id for s in samples))}
    bins = split_lengths([len(s.ids) for s in samples], max_tokens=max_tokens)
    return [pad([samples[i] for i in members], rollouts) for members in bins], len(rollouts)


def split_lengths(lengths: Sequence[int], *, max_tokens: int) -> list[list[int]]:
    """Indices by micro-batch: longest first, so that neighbours pad each other little."""
    bins: list[list[int]] = []
    longest = 0
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if bins and longest * (len(bins[-1]) + 1) <= max_tokens:
            bins[-1].append(i)
        else:
            bins.append([i])
            longest = lengths[i]
    return bins


def pad(samples: Sequence[Sample], rollouts: dict[str, int]) -> MicroBatch:
    """One micro-batch of the given samples."""
    lengths = np.array([len(s.ids) for s in samples], np.int64)
    shape = (len(samples), int(lengths.max()))
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
    for row, sample in enumerate(samples):
        ids[row, : lengths[row]] = sample.ids
        mask[row, : lengths[row]] = sample.mask
    counts = [int(s.mask.sum()) for s in samples]
    return MicroBatch(
        ids=ids,
        mask=mask,
        lengths=lengths,
        routes=_pad_routes(samples, shape),
        rollout=np.repeat([rollouts[s.rollout_id] for s in samples], counts),
        advantage=np.repeat([s.advantage for s in samples], counts),
        rollout_logprobs=np.concatenate([s.rollout_logprobs[s.mask] for s in samples]),
    )


def _pad_routes(samples: Sequence[Sample], shape: tuple[int, int]) -> NDArray[np.int16] | None:
    present = next((s.routes for s in samples if s.routes is not None), None)
    if present is None:
        return None
    routes = np.full((*shape, *present.shape[1:]), -1, np.int16)
    for row, sample in enumerate(samples):
        if sample.routes is not None:
            routes[row, : len(sample.ids)] = sample.routes
    return routes
