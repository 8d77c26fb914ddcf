"""The detectors' findings on their way to a person: which are worst, which series shows one, where to look.

Owns no opinion: everything here was found by `lego_core.health`, and `lego diagnose` says the same. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_core.changes import FIELD
from lego_core.health.findings import Finding, Hypothesis, Verdict
from lego_core.health.watchdog import ALERT, HEARTBEAT
from lego_tui.feed.run import RunFeed
from lego_tui.help_text import TITLES
from lego_tui.safe import one_line


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """A screen that shows more of a cause."""

    page: str
    view: str = ""
    hint: str = ""


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
    "silent": "silent share",
    "unearned": "unearned share",
    "dominated": "acted.dominated",
}
"""Metric of a finding → series that shows it, if the names differ."""
_ROLLOUTS = Look(page="step", hint="enter twice reads one")
_LOOK = {
    "environment_failure": Look(page="sandboxes"),
    "engine_and_trainer_disagree": Look(page="trajectory", view="tokens"),
    "misaligned_routes": Look(page="trajectory", view="tokens"),
    "reward_hacked": Look(page="review", hint="enter reads one; d its patch, i its verdict"),
    **dict.fromkeys(
        ("policy_destroyed", "repetition", "length_explosion", "form_lost", "lost_at_once", "rollouts_grow",
         "rollouts_shrink", "longer_turns"), _ROLLOUTS,
    ),
    **dict.fromkeys(("nothing_left_to_learn", "nothing_earned", "does_not_learn"), Look(page="pool")),
}  # fmt: skip
"""Hypothesis → screen that shows more; the chart of its first metric without an entry."""
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


def headline(run: RunFeed) -> tuple[str, str]:
    """What is wrong in a sentence and its level: the likeliest cause, else the worst finding, else why there is
    none; without a level where nothing is."""
    if run.version == 0:
        return "reading …", ""
    if causes := run.diagnosis.hypotheses:
        told = f"{causes[0].name} since step {since(run, causes[0])}: {causes[0].text}"
        return told, "bad" if run.diagnosis.stop_reasons else "watch"
    if found := findings(run):
        return f"since step {found[0].since}: {found[0].text}", level(found[0])
    return run.reason or run.newer or (run.diagnosis.data_quality or ("",))[0], ""


def since(run: RunFeed, hypothesis: Hypothesis) -> int:
    """The step at which the first of what speaks for a cause began."""
    return min((f.since for f in run.diagnosis.findings if f.key in hypothesis.evidence), default=0)


def series_name(finding: Finding) -> str:
    """The series of `lego_tui.metrics` that shows it."""
    return _SERIES.get(finding.metric, finding.metric)


def look(hypothesis: Hypothesis) -> Look:
    """Where there is more."""
    return _LOOK.get(hypothesis.name, Look(page="run"))


def where(run: RunFeed, hypothesis: Hypothesis) -> str:
    """Where enter leads from a cause, in words."""
    there = look(hypothesis)
    return f"{TITLES[there.page]}, step {since(run, hypothesis)}{'; ' * bool(there.hint)}{there.hint}"


def happened(run: RunFeed) -> list[tuple[int, str]]:
    """Step and name of what happened to a run beside its course: resumed, an engine restarted, a pause, …"""
    found: list[tuple[int, str]] = []
    resumed = ""
    for event in run.events:
        at, fields = event.fields.get("step"), event.fields
        if event.kind == "started" and fields.get("resumed"):
            resumed = f"resumed{f', changed {fields[FIELD]}' if fields.get(FIELD) else ''}"
        if not isinstance(at, int):
            continue
        if resumed:
            found.append((at, one_line(f"{resumed} at step {at}", 200)))
            resumed = ""
        if event.kind not in _QUIET:
            reason = fields.get("reason", "")
            found.append((at, one_line(f"{event.kind} at step {at}{': ' * bool(reason)}{reason}", 200)))
    return found


def just_before(run: RunFeed, step: int, window: int = 2) -> list[str]:
    """What happened in the few steps before a finding began."""
    return [told for at, told in happened(run) if step - window <= at <= step][-5:]


def passed(run: RunFeed) -> list[str]:
    """What stood out for a while and does not any more, newest first: often the first sign of what came later."""
    now, raised, found = {f.key for f in run.diagnosis.findings}, dict[str, object](), list[str]()
    for event in run.events:
        fields = event.fields
        key = one_line(f"{fields.get('metric')}/{fields.get('detector')}", 80)
        if event.kind == ALERT and fields.get("state") == "raised":
            raised.setdefault(key, fields.get("since"))
        elif event.kind == ALERT and key in raised and key not in now:
            begun, ended = raised.pop(key), fields.get("step")
            found.append(
                one_line(f"{key} since step {begun}, gone at step {ended}: {fields.get('text', '')}", 300)
            )
    return found[::-1]
