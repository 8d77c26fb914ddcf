"""What a detector says, and what follows from it.

Owns the vocabulary shared by detectors, watchdog and faces. Invariants: no text of a model is ever in
one of these records (law 9): metric and detector names are ours, the rest is numbers; only the layers
INVARIANT and DROP may stop a run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Layer(StrEnum):
    """How much a finding is trusted."""

    INVARIANT = "invariant"
    """Something that no learning run does."""
    DROP = "drop"
    """The reward fell from its peak and stayed down."""
    WARNING = "warning"
    """Worth a look; never enough to stop."""

    @property
    def may_stop(self) -> bool:
        return self is not Layer.WARNING


class Verdict(StrEnum):
    """One word for a run."""

    HEALTHY = "healthy"
    WATCH = "watch"
    """There are warnings."""
    COLLAPSED = "collapsed"
    """An invariant is broken, or the reward has dropped for good."""
    UNKNOWN = "unknown"
    """Too few steps to say anything."""


PERCENT = " %"
_UNITS = {
    **dict.fromkeys(
        ("ungraded", "zero_variance", "truncated", "malformed", "silent", "dominated", "unearned", "heldout",
         "clip_fraction", "routing_coverage", "expert_overlap", "top1_agreement"), PERCENT,
    ),
    "response_tokens": " tokens", "turns": " turns", "tokens_per_turn": " tokens", "staleness": " versions",
    "watchdog": " steps", "entropy": " nats", "kl_loss": " nats", "mean_abs_dlogp": " nats", "k3": " nats",
}  # fmt: skip
_UNITS_OF_DETECTORS = {"page_hinkley": " standard deviations, summed up", "falling": ", t of the slope"}
"""What the numbers of a finding are, where they are not the metric itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing a detector saw, still true at the last step."""

    metric: str
    """A column of `Series`, or `heldout`."""
    detector: str
    layer: Layer
    value: float
    threshold: float
    """What `value` was compared with."""
    since: int
    """First step of the stretch."""
    text: str
    """One sentence of ours."""

    @property
    def key(self) -> str:
        """`metric/detector`: what evidence is named by."""
        return f"{self.metric}/{self.detector}"

    @property
    def line(self) -> str:
        """All of it on one line."""
        unit = _UNITS_OF_DETECTORS.get(self.detector, _UNITS.get(self.metric, ""))
        size = 100 if unit == PERCENT else 1
        numbers = f"{number(size * self.value)} against {number(size * self.threshold)}{unit}"
        return f"{self.key} since step {self.since}: {self.text} ({numbers})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Hypothesis:
    """A possible cause and how to tell."""

    name: str
    text: str
    evidence: tuple[str, ...]
    """`metric/detector` of the findings that speak for it."""
    next_check: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """One row of the paper's Table 8."""

    metric: str
    first: float | None
    """Mean of the first five measured steps; None when nothing was measured."""
    last: float | None
    t: float | None
    """Least-squares slope over its standard error, all measured steps; |t| < 2 is noise. Reported, never a
    trigger: looked at on every step of an autocorrelated curve it cries wolf in half of the runs."""
    n: int
    """Measured steps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """Everything that can be said about a run at one step."""

    verdict: Verdict
    as_of_step: int
    """0 before the first step."""
    num_steps: int
    in_grace: bool
    """The run was resumed a few steps ago: what looks like a collapse may be a transient, only NaN stops."""
    findings: tuple[Finding, ...]
    hypotheses: tuple[Hypothesis, ...]
    evidence: tuple[Evidence, ...]
    data_quality: tuple[str, ...]
    """What was missing, and what that means for the verdict."""

    @property
    def stop_reasons(self) -> tuple[Finding, ...]:
        """The findings that may stop the run."""
        return tuple(finding for finding in self.findings if finding.layer.may_stop)


def number(value: float | None) -> str:
    """A number of a diagnosis as short text."""
    return "–" if value is None else "not a number" if not math.isfinite(value) else f"{value:.4g}"
