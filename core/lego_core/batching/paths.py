"""Where the tokens of samples lie in a micro-batch, and what branches of a rollout share.

Invariant: two samples share a position only if ids and routes of everything up to it are equal,
so that what is computed there is the same for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lego_core.types import Sample


@dataclass(frozen=True, kw_only=True, slots=True)
class Path:
    """One sample of length n."""

    rows: NDArray[np.int64]
    """`[n]` where each of its tokens lies; rising."""
    start: int
    """Those before it lie on an earlier path."""


def padded_paths(samples: Sequence[Sample]) -> tuple[tuple[Path, ...], tuple[int, int]]:
    """One row per sample: paths into the flattened rows, and their shape."""
    width = max(len(s.ids) for s in samples)
    paths = tuple(Path(rows=i * width + np.arange(len(s.ids)), start=0) for i, s in enumerate(samples))
    return paths, (len(samples), width)


def lay_out(samples: Sequence[Sample], *, multiple: int = 1) -> tuple[tuple[Path, ...], tuple[int, int]]:
    """One after another in a single row, with what branches share only once: paths and shape. The row's length is a
    multiple of `multiple`; the positions added for that are one more path, which belongs to no sample."""
    paths: list[Path] = []
    used = 0
    for i, sample in enumerate(samples):
        rows, start = np.empty(0, np.int64), 0
        for other, path in zip(samples[:i], paths, strict=True):
            if other.rollout_id == sample.rollout_id and (shared := common_start(other, sample)) > start:
                rows, start = path.rows[:shared], shared
        own = len(sample.ids) - start
        paths.append(Path(rows=np.concatenate([rows, used + np.arange(own)]), start=start))
        used += own
    if surplus := -used % multiple:
        paths.append(Path(rows=used + np.arange(surplus), start=0))
    return tuple(paths), (1, used + surplus)


def common_start(a: Sample, b: Sample) -> int:
    """Tokens at the beginning with equal ids and equal routes."""
    n = min(len(a.ids), len(b.ids))
    equal = a.ids[:n] == b.ids[:n]
    if (a.routes is None) != (b.routes is None):
        return 0
    if a.routes is not None and b.routes is not None:
        equal &= (a.routes[:n] == b.routes[:n]).all((1, 2))
    return n if equal.all() else int(equal.argmin())
