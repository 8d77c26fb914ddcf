"""The series a run is looked at by: what the trainer measured, and shares made of it. Pure.

Shares have names of their own (`heldout`, `failed share`, …) so that a chart can show them like any other.
"""

from __future__ import annotations

import math

import numpy as np

from lego_tui.feed.run import RunFeed
from lego_tui.feed.steps import Series

FIRST = (
    "reward_mean", "heldout", "solved share", "ungraded share", "failed share", "timeout share", "zero-variance share",
    "turns per rollout", "truncated share", "malformed share", "silent share", "unearned share", "entropy",
    "kl_loss", "grad_norm", "loss", "clip_fraction", "pearson_r", "mean_abs_dlogp", "k3", "routing_coverage",
    "expert_overlap", "top1_agreement", "tokens per rollout", "tokens_per_s", "seconds.total", "seconds.rollout",
    "seconds.train", "trained share",
)  # fmt: skip
_SHARES = {
    "solved share": ("solved", "rollouts"),
    "zero-variance share": ("zero_variance_groups", "groups"),
    "tokens per rollout": ("sampled", "rollouts"),
    "trained share": ("trained", "sampled"),
    "turns per rollout": ("acted.turns", "rollouts"),
    "truncated share": ("acted.truncated", "rollouts"),
    "silent share": ("acted.silent", "rollouts"),
    "unearned share": ("acted.unearned", "rollouts"),
}
_DROPPED = {
    "ungraded share": "dropped.ungraded:",
    "failed share": "dropped.ungraded:failed_",
    "timeout share": "dropped.ungraded:timeout",
}
_UNPLOTTED = {"step", "policy_version"}


def names(run: RunFeed) -> list[str]:
    """Series that a run has, the most telling ones first."""
    measured = [name for name in run.steps.names if name not in _UNPLOTTED]
    first = [name for name in FIRST if name in measured or _is_made(run, name)]
    return [*first, *sorted(set(measured) - set(FIRST))]


def _is_made(run: RunFeed, name: str) -> bool:
    """True for a share whose parts the run has measured."""
    above = _SHARES[name][0] if name in _SHARES else "acted.malformed" if name == "malformed share" else ""
    return above in run.steps.names if above else name == "heldout" or name in _DROPPED


def series(run: RunFeed, name: str) -> Series:
    """`[n]` by row of the steps; NaN where unknown."""
    steps = run.steps
    if name == "heldout":
        return _heldout(run)
    if name in _SHARES:
        above, below = (steps.series(part) for part in _SHARES[name])
        return _ratio(above, below)
    if name == "malformed share":
        good, bad = steps.series("acted.calls"), steps.series("acted.malformed")
        return _ratio(bad, good + bad)
    if wanted := _DROPPED.get(name):
        total = np.zeros(len(steps))
        for other in steps.names:
            if other.startswith(wanted):
                total += steps.series(other)[: len(total)]
        return _ratio(total, steps.series("rollouts"))
    return steps.series(name)


def is_share(name: str) -> bool:
    """Whether it is shown in percent."""
    return "share" in name or name in ("heldout", "expert_overlap", "top1_agreement", "routing_coverage")


def show(name: str, value: float) -> str:
    """A value of a series as short text."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if is_share(name):
        return f"{100 * value:.1f}%"
    size = abs(value)
    if name == "pearson_r":
        return f"{value:.5f}"
    if size >= 1e6:
        return f"{value:.3g}"
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100 or (value == int(value) and size < 1000 and not name.startswith(("reward", "loss"))):
        return f"{value:.0f}"
    if size >= 0.01:
        return f"{value:.3f}"
    return "0" if value == 0 else f"{value:.1e}"


def _ratio(above: Series, below: Series) -> Series:
    count = min(len(above), len(below))
    above, below = above[:count], below[:count]
    return np.divide(above, below, out=np.full(count, np.nan), where=below > 0)


def _heldout(run: RunFeed) -> Series:
    """The newest evaluation up to each step."""
    found = np.full(len(run.steps), np.nan)
    known = dict(zip(run.heldout.steps, run.heldout.series("solve_rate"), strict=False))
    if not known:
        return found
    at = np.array(sorted(known))
    rates = np.array([known[step] for step in at])
    place = np.searchsorted(at, np.array(run.steps.steps[: len(found)]), side="right") - 1
    return np.where(place >= 0, rates[np.maximum(place, 0)], np.nan)
