"""How likely an event is, given how often it was seen before. Pure."""

from __future__ import annotations

from math import exp, lgamma


def at_least(num: int, of: int, *, seen: float, among: float) -> float:
    """The chance of `num` or more hits in the next `of` tries, after `seen` hits in `among` tries.

    The tail of a beta-binomial distribution with a uniform prior (Laplace's rule), since `among` may be small."""
    a, b = seen + 1, among - seen + 1
    return sum(
        exp(_choices(of, i) + _log_beta(a + i, b + of - i) - _log_beta(a, b)) for i in range(num, of + 1)
    )


def _choices(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)
