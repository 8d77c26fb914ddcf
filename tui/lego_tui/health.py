"""The detectors' findings on their way to a person: which are worst, which series shows one, where to look.

Owns no opinion: everything here was found by `lego_core.health`, and `lego diagnose` says the same. Pure.
"""

from __future__ import annotations

from lego_core.health.findings import Finding, Hypothesis, Verdict
from lego_core.health.watchdog import ALERT, HEARTBEAT
from lego_tui.feed.run import RunFeed
from lego_tui.safe import one_line

VERDICTS = (Verdict.UNKNOWN, Verdict.HEALTHY, Verdict.WATCH, Verdict.COLLAPSED)
"""From nothing to say to the worst."""
_SERIES = {
    "reward": "reward_mean",
    "graded": "rollouts",
    "ungraded": "ungraded share",
    "zero_variance": "zero-variance share",
    "response_tokens": "tokens per rollout",
    "turns": "turns per rollout",
    "truncated": "truncated share",
    "malformed": "malformed share",
}
"""Metric of a finding → series that shows it, if the names differ."""
_LOOK = {
    "environment_failure": "6 Sandboxes",
    "engine_and_trainer_disagree": "4 Trajectory, t",
    "misaligned_routes": "4 Trajectory, t",
    "reward_hacked": "8 Review, enter, then d and i",
    "policy_destroyed": "3 Step, enter twice",
    "repetition": "3 Step, enter twice",
    "length_explosion": "3 Step, enter twice",
    "form_lost": "3 Step, enter twice",
    "lost_at_once": "3 Step, enter twice",
    "rollouts_grow": "3 Step, enter twice",
    "rollouts_shrink": "3 Step, enter twice",
    "longer_turns": "3 Step, enter twice",
    "nothing_left_to_learn": "7 Pool",
    "nothing_earned": "7 Pool",
    "does_not_learn": "7 Pool",
}
"""Hypothesis → screen of `lego watch` that shows more; 2 Run without an entry."""
_QUIET = ("stage", "checkpoint", HEARTBEAT, ALERT)


def findings(run: RunFeed) -> list[Finding]:
    """What stands out, what may stop a run first."""
    return sorted(run.diagnosis.findings, key=lambda finding: not finding.layer.may_stop)


def verdict(run: RunFeed) -> str:
    """healthy, watch, collapsed or unknown."""
    return run.diagnosis.verdict.value


def level(finding: Finding) -> str:
    """`bad` or `watch`: its sign and colour."""
    return "bad" if finding.layer.may_stop else "watch"


def first_line(run: RunFeed) -> str:
    """The worst finding, or why there is none."""
    found = findings(run)
    if found:
        return f"since step {found[0].since}: {found[0].text}"
    return run.reason or run.newer or (run.diagnosis.data_quality or ("",))[0]


def series_name(finding: Finding) -> str:
    """The series of `lego_tui.metrics` that shows it."""
    return _SERIES.get(finding.metric, finding.metric)


def where(hypothesis: Hypothesis) -> str:
    """Keys that lead to more."""
    return _LOOK.get(hypothesis.name, "2 Run")


def just_before(run: RunFeed, step: int, window: int = 2) -> list[str]:
    """Events of the few steps before a finding began, without those that every step has."""
    found: list[str] = []
    for event in run.events:
        at = event.fields.get("step")
        if isinstance(at, int) and step - window <= at <= step and event.kind not in _QUIET:
            reason = event.fields.get("reason", "")
            told = f"{event.kind} at step {at}: {reason}" if reason else f"{event.kind} at step {at}"
            found.append(one_line(told, 200))
    return found[-5:]
