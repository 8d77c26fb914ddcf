"""Why a rollout ended and what that means for its reward: decided here and nowhere else (law 5).

A pure function of the facts that `rollout.py` gathers. Invariant: whatever failed outside the agent
leaves the batch; whatever the agent did to itself is graded, and is worth 0 where nothing can be
graded any more. Runs nothing.

    first match wins                                  stop reason          graded
    engine, alignment or proxy ended the session      FAILED_…, CANCELLED  no
    wall clock passed                                 TIMEOUT              no
    agent ended its sandbox, backend still works      COMPLETED or TRUNC.  0
    anything else raised                              FAILED_…             no
    budget ended the session                          TRUNCATED_…          yes
    harness ended before any turn                     FAILED_HARNESS       no
    harness killed inside the sandbox                 COMPLETED            0
    harness ended by a reply cut at its limit         COMPLETED            yes
    harness exit code odd in a sandbox made useless   COMPLETED            0
    harness exit code not an ordinary one             FAILED_HARNESS       no
    otherwise                                         COMPLETED            yes

Then the integrity report of what was rewarded: `mask` makes it MASKED_INTEGRITY, `zero` takes the reward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lego_harness.adapters.base import HarnessExit
from lego_harness.errors import AlignmentError, EngineError, GraderError, HarnessError
from lego_harness.grading.integrity import verdict_of, zeroed
from lego_harness.proxy.capture import Capture
from lego_harness.text import one_line
from lego_harness.types import Finding, FindingKind, Grade, Policy, StopReason, Turn

_BOUNDARIES: tuple[tuple[type[Exception], StopReason], ...] = (
    (EngineError, StopReason.FAILED_ENGINE),
    (AlignmentError, StopReason.FAILED_ALIGNMENT),
    (HarnessError, StopReason.FAILED_HARNESS),
    (GraderError, StopReason.FAILED_GRADER),
)


@dataclass(kw_only=True, slots=True)
class Facts:
    """What happened in the agent phase. Filled in as it goes on, since any step may be the last."""

    capture: Capture | None = None
    """None only where the session could not be opened."""
    exit: HarnessExit | None = None
    """None when we killed the harness or it never ended."""
    is_out_of_time: bool = False
    limit_s: float = 0.0
    before: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The workspace that the agent was given."""
    exported: Mapping[str, bytes] | None = None
    """What it left; None when the phase did not get that far."""
    failure: Exception | None = None
    """LegoError or OSError that cut the phase short."""
    is_sandbox_gone: bool = False
    """`failure` says that the agent ended its sandbox after its first turn; the backend makes new ones."""
    is_sandbox_spoilt: bool = False
    """The harness ended oddly, and the agent's sandbox serves no longer where a fresh one does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Why the rollout ended."""

    stop: StopReason
    error: str = ""
    """One line; empty unless the rollout failed."""
    forfeit: str = ""
    """Why the reward is 0 without a look at the work; empty when the work is to be graded."""


def classify(facts: Facts) -> Verdict:
    """The verdict on an agent phase, by the table above."""
    capture, exit_ = facts.capture, facts.exit
    stop = capture.stop if capture else None
    if capture and stop and not stop.is_graded:
        return _failed(stop, capture.error)
    if facts.is_out_of_time or (exit_ and exit_.timed_out):
        return _failed(StopReason.TIMEOUT, f"passed its {facts.limit_s:g} s of wall clock")
    if facts.failure and facts.is_sandbox_gone:
        loss = one_line(f"the agent ended its own sandbox: {facts.failure}")
        return Verdict(stop=stop or StopReason.COMPLETED, forfeit=loss)
    if facts.failure:
        return classify_failure(facts.failure, otherwise=StopReason.FAILED_SETUP)
    if stop:
        return Verdict(stop=stop)
    return _classify_exit(exit_, capture.turns if capture else (), is_sandbox_spoilt=facts.is_sandbox_spoilt)


def classify_failure(failure: Exception, *, otherwise: StopReason) -> Verdict:
    """The verdict on an exception: by its own boundary, `otherwise` where it names none."""
    stop = next((stop for kind, stop in _BOUNDARIES if isinstance(failure, kind)), otherwise)
    return _failed(stop, str(failure) or type(failure).__name__)


def apply_policy(
    verdict: Verdict,
    grade: Grade | None,
    findings: Sequence[Finding],
    policy: Mapping[FindingKind, Policy],
) -> tuple[Verdict, Grade | None]:
    """What the integrity report does to a graded rollout: nothing, reward 0, or with a reward out of the batch."""
    action, cause = verdict_of(findings, policy)
    if grade is None or cause is None:
        return verdict, grade
    if action == "mask" and grade.reward > 0:  # a finding is no way out for who has lost
        return _failed(StopReason.MASKED_INTEGRITY, f"integrity: {cause.kind}: {cause.detail}"), None
    return verdict, zeroed(grade, cause)


def _classify_exit(exit_: HarnessExit | None, turns: Sequence[Turn], *, is_sandbox_spoilt: bool) -> Verdict:
    if exit_ is None:
        return _failed(StopReason.FAILED_HARNESS, "the harness did not say how it ended")
    said = one_line(exit_.output, limit=200, keep="end") or "nothing"
    if not turns:
        return _failed(
            StopReason.FAILED_HARNESS,
            f"the harness ended before its first model call with exit code {exit_.exit_code} and said: {said}",
        )
    if exit_.killed_inside:
        return Verdict(
            stop=StopReason.COMPLETED,
            forfeit=f"the harness was killed inside the agent's sandbox (exit code {exit_.exit_code})",
        )
    if exit_.is_odd and turns[-1].finish_reason != "length":
        if is_sandbox_spoilt:
            loss = f"the agent made its own sandbox useless, and the harness exited with {exit_.exit_code}"
            return Verdict(stop=StopReason.COMPLETED, forfeit=loss)
        return _failed(
            StopReason.FAILED_HARNESS, f"the harness exited with {exit_.exit_code} and said: {said}"
        )
    return Verdict(stop=StopReason.COMPLETED)


def _failed(stop: StopReason, error: str) -> Verdict:
    return Verdict(stop=stop, error=one_line(error))
