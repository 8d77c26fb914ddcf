"""How likely something is that was seen before. Pure."""

from __future__ import annotations

from math import exp, lgamma


def at_least(num: int, of: int, *, seen: float, among: float) -> float:
    """The chance that `num` or more of the next `of` are so, if `seen` of the `among` before were: Laplace's rule of
    succession, since those may be few (Bayes, uniform prior: the tail of a beta-binomial distribution)."""
    a, b = seen + 1, among - seen + 1
    return sum(
        exp(_choices(of, i) + _log_beta(a + i, b + of - i) - _log_beta(a, b)) for i in range(num, of + 1)
    )


def _choices(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)
