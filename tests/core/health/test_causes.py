"""Which cause is named first, and that there is one for whatever a detector can find."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lego_core.health import diagnose as table
from lego_core.health.acted import count_acts
from lego_core.health.findings import Finding, Layer, Verdict
from lego_core.health.hypotheses import explain
from lego_core.types import Acted
from lego_harness.types import Finding as Reported
from lego_harness.types import FindingKind, Grade
from tests.core.health.test_diagnose import run
from tests.support.runs import trajectory

Curves = dict[str, Callable[[int], object]]
FINE = Acted(turns=640, truncated=2, calls=640, malformed=4, silent=1, dominated=0, stop_reasons={})


def acted(**later: int) -> Curves:
    """Ordinary rollouts up to step 60, then these counts of 64 rollouts and 640 turns."""
    return {"acted": lambda i: replace(FINE, **later) if i > 60 else FINE}


def late(name: str, before: object, after: object) -> Curves:
    return {name: lambda i: after if i > 60 else before}


GONE: Curves = {"reward_mean": lambda i: 0.5 + 0.02 * math.sin(3 * i) if i <= 60 else 0.0}
WAVE: Curves = {"reward_mean": lambda i: 0.4 + (0.01 if i <= 60 else 0.3) * math.sin(2.5 * i)}
FLAT: Curves = {"reward_mean": lambda i: 0.4 + 0.02 * math.sin(7 * i)}
RISES: Curves = {"reward_mean": lambda i: 0.3 + 0.004 * i + 0.02 * math.sin(7 * i)}


@pytest.mark.parametrize(
    ("cause", "curves", "resumed"),
    [
        ("began_with_a_resume", GONE | acted(silent=64, calls=0, malformed=600), (61,)),
        ("numbers_overflow", RISES | late("k3", 1e-4, math.inf), ()),
        ("reward_hacked", RISES | acted(unearned=40), ()),
        ("misaligned_routes", RISES | late("expert_overlap", 0.996, 0.08), ()),
        ("misaligned_routes", RISES | late("routing_coverage", 1.0, 0.4), ()),
        ("stale_rollouts", RISES | late("lag", {"0": 900, "1": 100}, {"5": 500, "6": 500}), ()),
        ("engine_and_trainer_disagree", RISES | late("k3", 7e-4, 6e-3), ()),
        ("engine_and_trainer_disagree", RISES | late("mean_abs_dlogp", 0.01, 0.2), ()),
        ("step_too_large", RISES | late("clip_fraction", 0.15, 0.97), ()),
        ("step_too_large", RISES | late("grad_norm", 0.3, 9.0), ()),
        ("far_from_the_reference", RISES | late("kl_loss", 0.01, 0.6), ()),
        ("form_lost", RISES | acted(malformed=90, calls=550), ()),
        ("form_lost", RISES | acted(silent=30), ()),
        ("rollouts_shrink", RISES | acted(turns=70, calls=70), ()),
        ("rollouts_grow", RISES | late("sampled", 1_000, 9_000), ()),
        ("environment_failure", RISES | late("dropped", {}, {"ungraded:timeout": 9}), ()),
        ("lost_at_once", GONE | late("entropy", 0.7, 0.1) | acted(silent=30, truncated=40), ()),
        ("unstable_updates", WAVE, ()),
        ("does_not_learn", FLAT, ()),
        ("nothing_earned", {"reward_mean": lambda i: 0.0, "zero_variance_groups": lambda i: 8}, ()),
    ],
)
def test_the_likeliest_cause_is_named_first_with_what_speaks_for_it(
    cause: str, curves: Curves, resumed: tuple[int, ...]
) -> None:
    diagnosis = run(70, resumed, **curves)
    assert diagnosis.verdict in (Verdict.WATCH, Verdict.COLLAPSED)
    first = diagnosis.hypotheses[0]
    assert first.name == cause
    assert set(first.evidence) <= {finding.key for finding in diagnosis.findings}
    assert first.evidence
    assert first.next_check


@pytest.mark.parametrize(
    "curves",
    [
        {"kl_loss": lambda i: 1e-6 + 5e-4 * i},
        {"kl_loss": lambda i: 1e-7 + 4e-6 * i * i},
        {"grad_norm": lambda i: 12.0 if i == 30 else 0.3},
        {"lag": lambda i: {"0": 1000} if i == 1 else {"0": 100, "1": 900}},
        {"acted": lambda i: replace(FINE, malformed=max(120 - 6 * i, 2))},
        {"k3": lambda i: 1e-9 * i},
    ],
)
def test_what_every_run_does_is_not_told(curves: Curves) -> None:
    assert run(100, **(RISES | curves)).verdict is Verdict.HEALTHY


def test_a_resume_behind_which_nothing_happened_is_not_told() -> None:
    assert run(100, (20, 61), **RISES).verdict is Verdict.HEALTHY


def test_a_solved_run_that_stays_solved_is_not_told_to_have_stopped_learning() -> None:
    solved = run(100, reward_mean=lambda i: 0.95 + 0.01 * math.sin(i))
    assert solved.verdict is Verdict.HEALTHY


def every_finding() -> list[str]:
    """`metric/detector` of all that a detector can say of a run, but for limits of a policy."""
    keys = [f"{m}/non_finite" for m in table.FINITE] + [
        f"{m}/saturated" for m in (*table.SATURATED, "dominated")
    ]
    keys += [f"{m}/above" for m in table.SHARES_HIGH] + [f"{m}/below" for m in table.SHARES_LOW]
    for kind, metrics in {"grown": table.GROWN, "shrunk": table.SHRUNK, "surged": table.SURGED}.items():
        keys += [f"{metric}/{kind}" for metric in metrics]
    rewards = ("robust_drop", "page_hinkley", "falling", "never", "flat", "swinging")
    return [
        *keys,
        *(f"reward/{d}" for d in rewards),
        "zero_variance/above",
        "zero_variance/no_signal",
        "grad_norm/spike",
        "heldout/apart",
    ]


@pytest.mark.parametrize("key", sorted({*every_finding(), "heldout/fallen", "resume/began"}))
def test_whatever_is_found_has_a_cause_and_a_next_check(key: str) -> None:
    metric, _, detector = key.partition("/")
    found = Finding(
        metric=metric, detector=detector, layer=Layer.WARNING, value=1.0, threshold=0.0, since=3, text=""
    )
    assert [h.evidence for h in explain([found])][:1] == [(key,)]


@pytest.mark.parametrize(
    ("num", "changes"),
    [
        (0, {}),
        (1, {"patch": " \n"}),
        (1, {"integrity": (Reported(kind=FindingKind.DEGENERATE_PATCH, detail=""),)}),
        (1, {"integrity": (Reported(kind=FindingKind.FORGED_VERDICT, detail=""),)}),
        (0, {"integrity": (Reported(kind=FindingKind.GIT_PROBE, detail=""),)}),
        (0, {"patch": "", "grade": Grade(reward=0.0, tests={}, duration_s=0.1)}),
        (0, {"patch": "", "grade": None}),
    ],
)
def test_rewards_in_doubt_are_counted(num: int, changes: dict[str, Any]) -> None:
    assert count_acts([trajectory(**changes)]).unearned == num
