"""How often tasks are solved, from several attempts at each, and how certain that is.

For a task with c of n attempts solved, without bias for any k ≤ n:

    pass@k = 1 − C(n−c, k) / C(n, k)     at least one of k attempts solves it (Chen et al., arXiv 2107.03374)
    pass^k =     C(c, k)   / C(n, k)     all of k attempts solve it           (Yao et al., arXiv 2406.12045)

pass@1 and pass^1 are the solve rate c / n. Intervals are Wilson's with the number of *tasks*: attempts at
one task are not independent evidence. A mean of values in [0, 1] varies no more than a share with the same
mean, so the intervals cover at least what they promise, and they do not vanish at 0 and 1. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, sqrt

Z = 1.959964
"""Of a 95 % interval."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PassRates:
    """Over tasks with at least k graded attempts."""

    k: int
    tasks: int
    pass_at_1: Rate
    pass_at_k: Rate
    pass_hat_k: Rate
    """pass^k."""


def pass_rates(attempts: Sequence[Sequence[bool]], k: int) -> PassRates | None:
    """The rates of tasks, given their attempts (True if solved); None when no task has k attempts."""
    counts = [(len(tries), sum(tries)) for tries in attempts if len(tries) >= k]
    if not counts:
        return None
    return PassRates(
        k=k,
        tasks=len(counts),
        pass_at_1=wilson([c / n for n, c in counts]),
        pass_at_k=wilson([1 - comb(n - c, k) / comb(n, k) for n, c in counts]),
        pass_hat_k=wilson([comb(c, k) / comb(n, k) for n, c in counts]),
    )


def wilson(values: Sequence[float]) -> Rate:
    """Mean of independent values in [0, 1] with Wilson's score interval."""
    n, mean = len(values), sum(values) / len(values)
    centre = mean + Z * Z / (2 * n)
    half = Z * sqrt(mean * (1 - mean) / n + Z * Z / (4 * n * n))
    scale = 1 + Z * Z / n
    return Rate(value=mean, low=max((centre - half) / scale, 0.0), high=min((centre + half) / scale, 1.0))
