"""From arrays to a verdict: every detector over every metric it makes sense for.

Owns the table of which detector looks at which metric and how much it is trusted. Pure: a function of a series and
of the policy's grace and limits; no text of a model reaches the result (law 9).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from lego_core.config import Limit, WatchdogPolicy
from lego_core.health import heldout, invariants, reward_signs, signs
from lego_core.health.drop import robust_drop
from lego_core.health.evidence import table8
from lego_core.health.findings import Diagnosis, Finding, Layer, Verdict
from lego_core.health.hypotheses import explain
from lego_core.health.rolling import Floats
from lego_core.health.series import COLUMNS, Series
from lego_core.health.signs import RECENT, Sign

RESUME_STEPS = 2
"""After a resume; what begins within these steps is put down to it."""
MIN_STEPS = 5
"""With fewer steps, nothing is said about a run."""
FINITE = ("loss", "grad_norm", "entropy", "kl_loss", "reward", "k3", "mean_abs_dlogp")
SATURATED = {
    "truncated": "nearly every rollout runs into its turn or token limit",
    "malformed": "nearly every tool call is unreadable",
    "silent": "nearly no rollout makes a readable call",
}
SHARES_HIGH = {
    "ungraded": (0.2, "rollouts leave the batch without a grade"),
    "truncated": (0.5, "many rollouts run into a limit"),
    "malformed": (0.2, "many tool calls are unreadable"),
    "silent": (0.2, "rollouts without a readable call"),
    "dominated": (0.05, "outputs that repeat one token"),
    "k3": (0.01, "trainer and engine disagree (the paper's healthy runs: about 0.001)"),
    "clip_fraction": (0.9, "nearly every update is clipped"),
    "kl_loss": (1.0, "the policy is far from where it began"),
    "unearned": (0.05, "rewards for no change, or for a patch that cheats"),
}
ZERO_VARIANCE = 0.8
SHARES_LOW = {
    "pearson_r": (0.99, "trainer and engine disagree (the paper's healthy runs: 0.998 and more)"),
    "routing_coverage": (0.95, "routes are missing"),
    "expert_overlap": (0.9, "replayed routes are not those of the trainer's router"),
    "top1_agreement": (0.9, "replayed routes are not those of the trainer's router"),
}
GROWN = {
    "entropy": (3.0, 0.0), "turns": (2.0, 0.0), "response_tokens": (3.0, 0.0), "tokens_per_turn": (3.0, 0.0),
    "grad_norm": (10.0, 0.0), "k3": (5.0, 3e-3), "mean_abs_dlogp": (5.0, 0.05), "malformed": (5.0, 0.1),
    "ungraded": (4.0, 0.1), "staleness": (3.0, 2.0),
}  # fmt: skip
"""Metric → the factor above the run's beginning that is worth a look, and the level from which on."""
SHRUNK = {"entropy": 3.0, "turns": 2.0, "response_tokens": 3.0}
"""The same downwards."""
SURGED = {"kl_loss": (5.0, 0.1)}
"""The same compared with the steps just before: it grows from nothing in every run."""


def diagnose(series: Series, policy: WatchdogPolicy | None = None) -> Diagnosis:
    """Everything that can be said as of the last step of `series`."""
    policy = policy or WatchdogPolicy()
    in_grace = is_in_grace(series, policy.grace_steps)
    found = list(_findings(series, policy))
    found += _behind_a_resume(series, found)
    findings = tuple(_as_warning(f) if in_grace and f.detector != "non_finite" else f for f in found)
    return Diagnosis(
        verdict=_verdict(series, findings),
        as_of_step=int(series.steps[-1]) if len(series) else 0,
        num_steps=len(series),
        in_grace=in_grace,
        findings=findings,
        hypotheses=explain(findings),
        evidence=table8(series),
        data_quality=tuple(_quality(series, policy)),
    )


def stop_reasons(series: Series, policy: WatchdogPolicy) -> tuple[Finding, ...]:
    """The findings that may stop the run now; what `diagnose` finds of this kind, without the rest."""
    if not len(series):
        return ()
    in_grace = is_in_grace(series, policy.grace_steps)
    found = (*_invariants(series), *_drop(series))
    return tuple(f for f in found if not in_grace or f.detector == "non_finite")


def is_in_grace(series: Series, grace_steps: int) -> bool:
    """Whether the last step is one of the first `grace_steps` after a resume."""
    return bool(len(series)) and any(0 <= series.steps[-1] - r < grace_steps for r in series.resumed)


def _verdict(series: Series, findings: tuple[Finding, ...]) -> Verdict:
    if any(finding.layer.may_stop for finding in findings):
        return Verdict.COLLAPSED
    if len(series) < MIN_STEPS:
        return Verdict.UNKNOWN
    return Verdict.WATCH if findings else Verdict.HEALTHY


def _findings(series: Series, policy: WatchdogPolicy) -> Iterator[Finding]:
    if not len(series):
        return
    yield from _invariants(series)
    yield from _drop(series)
    yield from _reward(series, series.values("reward"))
    yield from _levels(series)
    yield from _heldout(series)
    yield from _changes(series)
    yield from (f for limit in policy.limits if (f := check_limit(series, limit)))


def _invariants(series: Series) -> Iterator[Finding]:
    rewards, graded, groups = (series.values(name) for name in ("reward", "graded", "groups"))
    for metric in FINITE:
        if metric in series.columns and (breach := invariants.non_finite(series.columns[metric])):
            text = f"{metric} is not a number"
            yield _finding(series, metric, "non_finite", Layer.INVARIANT, _as_sign(breach), text)
    for metric, text in SATURATED.items():
        breach = invariants.saturated(series.values(metric), rewards)
        if breach is None and metric == "malformed":
            breach = invariants.form_gone(series.values(metric), rewards)
        if breach:
            yield _finding(series, metric, "saturated", Layer.INVARIANT, _as_sign(breach), text)
    if breach := invariants.dominating(series.values("dominated")):
        text = "one repeated token makes up most of what is sampled"
        yield _finding(series, "dominated", "saturated", Layer.INVARIANT, _as_sign(breach), text)
    if breach := invariants.no_signal(series.values("zero_variance"), rewards, graded, groups):
        text = "no group has anything to learn from, and rewards are low"
        yield _finding(series, "zero_variance", "no_signal", Layer.INVARIANT, _as_sign(breach), text)


def _as_sign(breach: invariants.Breach) -> Sign:
    return Sign(value=breach.value, threshold=breach.threshold, start=breach.start)


def _drop(series: Series) -> Iterator[Finding]:
    drop = robust_drop(series.values("reward"), series.values("graded"))
    if drop is not None:
        text = (
            f"the reward fell from {drop.peak:.3g} to {drop.level:.3g}, {drop.sigmas:.3g} standard deviations"
        )
        sign = Sign(value=drop.level, threshold=0.35 * drop.peak, start=drop.start)
        yield _finding(series, "reward", "robust_drop", Layer.DROP, sign, text)


def _reward(series: Series, rewards: Floats) -> Iterator[Finding]:
    seen = (
        ("page_hinkley", signs.page_hinkley(rewards), "the mean of the reward has changed downwards"),
        ("falling", signs.falling(rewards), "the reward has been falling for forty steps"),
        ("cliff", reward_signs.cliff(rewards), "the reward was lost from one step to the next"),
        ("never", reward_signs.never(rewards), "hardly anything has been earned so far"),
        ("flat", reward_signs.flat(rewards), "the reward is where it was at the beginning"),
        (
            "swinging",
            reward_signs.swinging(rewards, series.values("graded")),
            "the reward swings more and more",
        ),
    )
    yield from (_warning(series, "reward", name, sign, text) for name, sign, text in seen if sign)
    if sign := signs.spike(series.values("grad_norm")):
        yield _warning(series, "grad_norm", "spike", sign, "the gradient is far larger than before")


def _heldout(series: Series) -> Iterator[Finding]:
    seen = (
        (
            "apart",
            heldout.apart(series.values("reward"), series.heldout),
            "the training reward rose while the held-out solve rate fell",
        ),
        ("fallen", heldout.fallen(series.heldout), "the held-out solve rate is far below its best"),
    )
    for detector, sign, text in seen:
        if sign:
            yield Finding(
                metric="heldout",
                detector=detector,
                layer=Layer.WARNING,
                value=sign.value,
                threshold=sign.threshold,
                since=sign.start,
                text=text,
            )


def _behind_a_resume(series: Series, found: Sequence[Finding]) -> list[Finding]:
    """Whether what was found began with the steps that a resume began with; no finding by itself."""
    began = [f.since for f in found if any(0 <= f.since - r <= RESUME_STEPS for r in series.resumed)]
    if not began:
        return []
    return [
        Finding(
            metric="resume",
            detector="began",
            layer=Layer.WARNING,
            value=float(len(began)),
            threshold=1.0,
            since=max(r for r in series.resumed if r <= max(began)),
            text="what stands above began right behind a resume",
        )
    ]


def _levels(series: Series) -> Iterator[Finding]:
    for metric, (limit, text) in SHARES_HIGH.items():
        if sign := signs.above(series.values(metric), limit):
            yield _warning(series, metric, "above", sign, text)
    if sign := signs.mostly(series.values("zero_variance"), series.values("groups"), ZERO_VARIANCE):
        yield _warning(series, "zero_variance", "above", sign, "few groups have anything to learn from")
    for metric, (limit, text) in SHARES_LOW.items():
        if sign := signs.below(series.values(metric), limit):
            yield _warning(series, metric, "below", sign, text)


def _changes(series: Series) -> Iterator[Finding]:
    for metric, (factor, least) in GROWN.items():
        is_told = metric in SHARES_HIGH and signs.above(series.values(metric), SHARES_HIGH[metric][0])
        if not is_told and (sign := signs.grown(series.values(metric), factor, least)):
            yield _warning(series, metric, "grown", sign, f"{metric} is far above the run's beginning")
    for metric, factor in SHRUNK.items():
        if sign := signs.shrunk(series.values(metric), factor):
            yield _warning(series, metric, "shrunk", sign, f"{metric} is far below the run's beginning")
    for metric, (factor, least) in SURGED.items():
        if sign := signs.surged(series.values(metric), factor, least):
            yield _warning(series, metric, "surged", sign, f"{metric} is far above the steps just before")


def check_limit(series: Series, limit: Limit) -> Finding | None:
    """The finding of a limit that does not hold over its last `steps` measured steps, or None; None also where
    it cannot be judged, because none of the run's last `steps` steps has a value (`is_silent`)."""
    if is_silent(series, limit.metric, limit.steps):
        return None
    index = np.flatnonzero(np.isfinite(series.values(limit.metric)))[-limit.steps :]
    level = float(series.values(limit.metric)[index].mean())
    for bound, is_broken, word in (
        (limit.min, limit.min is not None and level < limit.min, "below"),
        (limit.max, limit.max is not None and level > limit.max, "above"),
    ):
        if bound is not None and is_broken:
            text = f"{limit.metric} is {word} the limit of the policy"
            sign = Sign(value=level, threshold=bound, start=int(index[0]))
            return _warning(series, limit.metric, f"limit_{word}", sign, text)
    return None


def is_silent(series: Series, metric: str, steps: int) -> bool:
    """Whether none of the run's last `steps` steps has a value of the metric."""
    return not np.isfinite(series.values(metric)[-steps:]).any()


def _warning(series: Series, metric: str, detector: str, sign: Sign, text: str) -> Finding:
    return _finding(series, metric, detector, Layer.WARNING, sign, text)


def _finding(series: Series, metric: str, detector: str, layer: Layer, sign: Sign, text: str) -> Finding:
    return Finding(
        metric=metric,
        detector=detector,
        layer=layer,
        value=sign.value,
        threshold=sign.threshold,
        since=int(series.steps[sign.start]),
        text=text,
    )


def _as_warning(finding: Finding) -> Finding:
    return replace(finding, layer=Layer.WARNING)


def _quality(series: Series, policy: WatchdogPolicy) -> Iterator[str]:
    if len(series) < MIN_STEPS:
        yield f"{len(series)} steps, too few for a verdict: it takes {MIN_STEPS}, and the drop rule 17"
    absent = [name for name in COLUMNS if name in series.columns and not series.columns[name].num_measured]
    if len(series) and absent:
        yield f"never measured: {', '.join(absent)}"
    silent = [name for name in series.columns if name not in absent and is_silent(series, name, RECENT)]
    if silent:
        yield f"no value in the last {RECENT} steps: {', '.join(silent)}"
    for limit in policy.limits if len(series) else ():
        if is_silent(series, limit.metric, limit.steps):
            yield f"the limit on {limit.metric} is not judged: no value in the last {limit.steps} steps"
    gaps = np.flatnonzero(np.diff(series.steps) > 1)
    if len(gaps):
        yield f"steps are missing in {len(gaps)} places, first behind step {int(series.steps[gaps[0]])}"
