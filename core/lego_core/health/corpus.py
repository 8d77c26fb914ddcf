"""Labelled runs that the detectors are calibrated on: published collapses, and healthy runs that look like them.

Most published curves are pictures, so each is a replica: a parametric shape, the noise of binomial rewards, and the
symptoms that the report names. Numbers given in text (ml-agents#101, marin#8955) are used as they are, scaled to
[0, 1]. Invariant: a replica is a function of its seed. Detectors never import this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lego_core.health.rolling import Floats
from lego_core.health.series import Series, as_column

Curve = Callable[[Floats], Floats]
"""Steps `[n]` from 0 → level in [0, 1]."""
SHARES = {"truncated", "malformed", "silent", "dominated", "ungraded"}
"""Symptoms that are shares of a step's rollouts or calls."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replica:
    """One labelled run, up to its noise."""

    name: str
    source: str
    """Where the shape was reported; `simulated` for a shape of our own."""
    collapses: bool
    reward: Curve
    n: int = 120
    groups: int = 16
    group_size: int = 8
    spread: float = 0.15
    """Standard deviation of solve rates between tasks: groups differ more than rollouts of one do."""
    solvable: float | None = None
    """Solve rate of the tasks that are ever solved, if all others never are; None: rates are spread around the level."""
    phi: float = 0.0
    """Lag-1 autocorrelation added to the level."""
    wobble: float = 0.0
    """Standard deviation of that noise."""
    symptoms: dict[str, Curve] = field(default_factory=dict[str, Curve])
    """Further metrics by step."""
    resumed: tuple[int, ...] = ()

    def draw(self, seed: int) -> Series:
        """One run of it."""
        rng = np.random.default_rng([seed, sum(self.name.encode())])
        steps = np.arange(self.n, dtype=np.float64)
        level = np.clip(self.reward(steps) + _ar1(rng, self.n, self.phi, self.wobble), 0, 1)
        rewards, zero = self._rollouts(rng, level)
        count = float(self.groups * self.group_size)
        columns = {
            "reward": rewards,
            "zero_variance": zero,
            "graded": np.full(self.n, count),
            "rollouts": np.full(self.n, count),
            "groups": np.full(self.n, float(self.groups)),
        }
        columns |= {name: self._symptom(rng, name, curve(steps)) for name, curve in self.symptoms.items()}
        return Series(
            steps=np.arange(1, self.n + 1),
            columns={name: as_column(values.tolist()) for name, values in columns.items()},
            resumed=self.resumed,
        )

    def _symptom(self, rng: np.random.Generator, name: str, level: Floats) -> Floats:
        """`[n]` with the noise that its metric has: a share counts rollouts and never passes 1."""
        if name in SHARES:
            count = self.groups * self.group_size
            return rng.binomial(count, level) / count
        return level * np.exp(rng.normal(0, 0.05, self.n))

    def _rates(self, rng: np.random.Generator, level: Floats) -> Floats:
        """`[n, groups]` solve rate of each group's task."""
        shape = (self.n, self.groups)
        if self.solvable is not None:
            return np.where(rng.random(shape) < level[:, None] / self.solvable, self.solvable, 0.0)
        spread = self.spread * np.sqrt(4 * level * (1 - level))[:, None]
        rates = np.clip(rng.normal(level[:, None], spread, shape), 0, 1)
        rates[level == 0] = 0
        return rates

    def _rollouts(self, rng: np.random.Generator, level: Floats) -> tuple[Floats, Floats]:
        """Mean reward `[n]` and share of groups without variance `[n]`."""
        solved = rng.binomial(self.group_size, self._rates(rng, level))
        is_flat = (solved == 0) | (solved == self.group_size)
        return solved.mean(axis=1) / self.group_size, is_flat.mean(axis=1)


def _ar1(rng: np.random.Generator, n: int, phi: float, sd: float) -> Floats:
    noise = rng.normal(0, sd * np.sqrt(1 - phi**2), n) if sd else np.zeros(n)
    for i in range(1, n):
        noise[i] += phi * noise[i - 1]
    return noise


def rise(start: float, end: float, half: float) -> Curve:
    """A learning curve that has gone half of its way at `half`."""
    return lambda s: end - (end - start) * 0.5 ** (s / half)


def flat(level: float) -> Curve:
    return lambda s: np.full_like(s, level)


def cliff(before: Curve, at: int, to: float = 0.0, over: int = 1) -> Curve:
    """`before`, then within `over` steps down to `to`."""

    def curve(s: Floats) -> Floats:
        share = np.clip((s - at + 1) / over, 0, 1)
        return np.where(s < at, before(s), (1 - share) * before(np.full_like(s, at)) + share * to)

    return curve


def decay(before: Curve, at: int, half: float, to: float = 0.0) -> Curve:
    """`before`, then an exponential fall that is half done after `half` steps."""
    return lambda s: np.where(
        s < at, before(s), to + (before(np.full_like(s, at)) - to) * 0.5 ** ((s - at) / half)
    )


def dip(before: Curve, at: int, depth: float, length: int) -> Curve:
    """`before`, except for a half-wave of `length` steps that takes `depth` of the level away."""

    def curve(s: Floats) -> Floats:
        inside = (s >= at) & (s < at + length)
        wave = np.sin(np.pi * (s - at + 0.5) / length)
        return before(s) * np.where(inside, 1 - depth * wave, 1)

    return curve


def notch(before: Curve, at: int, to: float, length: int) -> Curve:
    """`before`, except for `length` steps at the level `to`."""
    return lambda s: np.where((s >= at) & (s < at + length), to, before(s))


def jump(low: float, high: float, at: int, over: int = 3) -> Curve:
    """From `low` to `high` within `over` steps: a symptom that appears."""
    return lambda s: low + (high - low) * np.clip((s - at + 1) / over, 0, 1)


def numbers(values: list[float], every: int, scale: float) -> Curve:
    """Published numbers, `every` steps apart, with straight lines between."""
    return lambda s: np.interp(s, every * np.arange(len(values)), np.array(values) / scale)
