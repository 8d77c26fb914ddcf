"""What is said about a run, and what is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lego_core.config import Limit, WatchdogPolicy
from lego_core.health.acted import count_acts
from lego_core.health.corpus_runs import collapses
from lego_core.health.diagnose import diagnose
from lego_core.health.findings import Diagnosis, Verdict
from lego_core.health.series import COLUMNS, make_series, resumed_steps
from lego_core.store import Event
from lego_core.types import Acted, StepRecord
from lego_harness.types import StopReason
from tests.support.runs import step, trajectory


def run(n: int, resumed: tuple[int, ...] = (), **curves: Callable[[int], object]) -> Diagnosis:
    return diagnose(make_series(records(n, **curves), resumed))


def records(n: int, **curves: Callable[[int], object]) -> list[StepRecord]:
    usual = {"reward_mean": lambda i: 0.4 + 0.03 * math.sin(7 * i), "zero_variance_groups": lambda i: 1}
    return [
        step(i, **{name: curve(i) for name, curve in (usual | curves).items()})  # type: ignore[arg-type]
        for i in range(1, n + 1)
    ]


def found(diagnosis: Diagnosis) -> set[str]:
    return {f"{f.metric}/{f.detector}" for f in diagnosis.findings}


def test_a_run_that_learns_is_healthy() -> None:
    assert run(60, reward_mean=lambda i: 0.2 + 0.01 * i + 0.02 * math.sin(5 * i)).verdict is Verdict.HEALTHY


@pytest.mark.parametrize("n", [0, 1, 4])
def test_a_few_steps_are_too_few_for_a_verdict(n: int) -> None:
    diagnosis = run(n)
    assert (diagnosis.verdict, diagnosis.num_steps, diagnosis.as_of_step) == (Verdict.UNKNOWN, n, n)
    assert "too few" in diagnosis.data_quality[0]


@pytest.mark.parametrize("metric", ["loss", "grad_norm", "entropy", "kl_loss"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_none_is_a_collapse_at_once(metric: str, value: float) -> None:
    diagnosis = run(3, **{metric: lambda i: value if i == 3 else 0.1})
    assert diagnosis.verdict is Verdict.COLLAPSED
    assert [(f.metric, f.detector, f.since) for f in diagnosis.stop_reasons] == [(metric, "non_finite", 3)]


def test_what_was_not_measured_is_not_broken() -> None:
    assert run(30, grad_norm=lambda i: None, entropy=lambda i: None).verdict is Verdict.HEALTHY


def test_a_step_without_any_signal_after_a_good_start_is_a_collapse_within_six_steps() -> None:
    def lost(n: int) -> Diagnosis:
        return run(
            n,
            reward_mean=lambda i: 0.4 if i < 20 else 0.0,
            zero_variance_groups=lambda i: 1 if i < 20 else 8,
        )

    assert "zero_variance/no_signal" not in found(lost(24))
    assert ("no_signal", 20) in [(f.detector, f.since) for f in lost(25).stop_reasons]


def test_groups_that_everybody_solves_are_no_collapse() -> None:
    solved = run(
        60,
        reward_mean=lambda i: min(0.5 + 0.05 * i, 1.0),
        zero_variance_groups=lambda i: 8 if i > 10 else 1,
    )
    assert solved.verdict is Verdict.WATCH
    assert found(solved) == {"zero_variance/above"}


def test_a_run_that_never_earned_anything_is_no_collapse() -> None:
    young = run(40, reward_mean=lambda i: 0.0, zero_variance_groups=lambda i: 8)
    assert young.verdict is Verdict.WATCH


def test_a_drop_that_lasts_stops_and_says_since_when() -> None:
    diagnosis = run(55, reward_mean=lambda i: 0.5 + 0.02 * math.sin(3 * i) if i <= 40 else 0.03)
    assert [(f.detector, f.since) for f in diagnosis.stop_reasons] == [("robust_drop", 41)]


def test_two_good_steps_behind_a_drop_are_a_recovery() -> None:
    def fell(n: int) -> Diagnosis:
        return run(n, reward_mean=lambda i: 0.6 if i <= 30 or i > 43 else 0.0)

    assert "reward/robust_drop" in found(fell(44))
    assert "reward/robust_drop" not in found(fell(45))


def test_steps_that_lost_most_of_their_rollouts_say_nothing_about_the_policy() -> None:
    storm = run(
        60,
        reward_mean=lambda i: 0.5 if i <= 40 else 0.0,
        dropped=lambda i: {} if i <= 40 else {"ungraded:failed_setup": 60},
    )
    assert storm.verdict is Verdict.WATCH
    assert storm.hypotheses[0].name == "environment_failure"


def test_a_reward_that_goes_down_slowly_is_no_policy_that_was_destroyed() -> None:
    drift = run(80, reward_mean=lambda i: 0.6 - 0.002 * i + 0.02 * math.sin(7 * i))
    named = [hypothesis.name for hypothesis in drift.hypotheses]
    assert drift.verdict is Verdict.WATCH
    assert named[0] == "slow_decay"
    assert "policy_destroyed" not in named


def test_a_step_down_that_is_no_collapse_is_told_as_a_lower_level() -> None:
    jump = run(60, reward_mean=lambda i: (0.6 if i <= 40 else 0.4) + 0.01 * math.sin(7 * i))
    named = [hypothesis.name for hypothesis in jump.hypotheses]
    assert jump.verdict is Verdict.WATCH
    assert named[0] == "lower_level"
    assert "policy_destroyed" not in named


def test_a_reward_that_is_gone_is_a_policy_that_was_destroyed() -> None:
    gone = run(55, reward_mean=lambda i: 0.5 + 0.02 * math.sin(3 * i) if i <= 40 else 0.03)
    assert gone.hypotheses[0].name == "policy_destroyed"


@pytest.mark.parametrize(
    ("lost", "cause"),
    [
        ("overlong", {"length_explosion", "entropy_changed"}),
        ("exclamations", {"repetition"}),
        ("form", {"form_lost"}),
        ("mismatch", {"engine_and_trainer_disagree"}),
        ("entropy-collapse", {"entropy_changed"}),
    ],
)
def test_a_cause_is_named_before_how_it_ended(lost: str, cause: set[str]) -> None:
    (replica,) = (r for r in collapses() if r.name == lost)
    named = [hypothesis.name for hypothesis in diagnose(replica.draw(0)).hypotheses]
    assert set(named[: len(cause)]) == cause
    assert "policy_destroyed" in named


def test_rollouts_that_grow_are_told_before_a_limit_cuts_them() -> None:
    longer = run(40, sampled=lambda i: 1_000 if i <= 20 else 6_000)
    assert [hypothesis.name for hypothesis in longer.hypotheses] == ["rollouts_grow"]


def test_behind_a_resume_only_a_number_that_is_none_stops() -> None:
    def low(i: int) -> float:
        return 0.5 if i < 30 else 0.0

    def flat(i: int) -> int:
        return 1 if i < 30 else 8

    within = run(36, (30,), reward_mean=low, zero_variance_groups=flat)
    behind = run(38, (30,), reward_mean=low, zero_variance_groups=flat)
    broken = run(31, (30,), loss=lambda i: math.nan if i == 31 else 0.0)
    assert (within.in_grace, within.verdict) == (True, Verdict.WATCH)
    assert (behind.in_grace, behind.verdict) == (False, Verdict.COLLAPSED)
    assert broken.verdict is Verdict.COLLAPSED


def test_a_limit_of_the_policy_is_a_warning() -> None:
    policy = WatchdogPolicy(limits=(Limit(metric="entropy", min=0.8), Limit(metric="reward", max=0.9)))
    diagnosis = diagnose(make_series(records(20)), policy)
    assert [(f.detector, f.threshold) for f in diagnosis.findings] == [("limit_below", 0.8)]
    assert diagnosis.verdict is Verdict.WATCH


def test_a_limit_whose_metric_is_no_longer_measured_is_told_and_not_judged_by_old_values() -> None:
    policy = WatchdogPolicy(limits=(Limit(metric="k3", max=0.01, steps=3),))

    def judged(last_measured: int) -> Diagnosis:
        curve = records(20, k3=lambda i: 0.02 if i <= last_measured else None)
        return diagnose(make_series(curve), policy)

    recent, stale, once, never = (judged(n) for n in (18, 17, 1, 0))
    assert "k3/limit_above" in found(recent)
    assert not [note for note in recent.data_quality if "limit" in note]
    for diagnosis in (stale, once, never):
        assert "k3/limit_above" not in found(diagnosis)
        assert "the limit on k3 is not judged: no value in the last 3 steps" in diagnosis.data_quality
    assert "no value in the last 5 steps: k3" in once.data_quality
    assert [note for note in never.data_quality if note.startswith("never measured") and "k3" in note]


def test_the_papers_table_is_first_five_last_five_and_t() -> None:
    rows = {e.metric: e for e in run(20, reward_mean=lambda i: 0.5 - 0.02 * i + 0.001 * (-1) ** i).evidence}
    reward = rows["reward"]
    x, y = np.arange(20.0), np.array([0.5 - 0.02 * i + 0.001 * (-1) ** i for i in range(1, 21)])
    fit, residues, *_ = np.polyfit(x, y, 1, full=True)
    t = fit[0] / math.sqrt(residues[0] / 18 / ((x - x.mean()) ** 2).sum())
    assert reward.first == pytest.approx(y[:5].mean())
    assert reward.last == pytest.approx(y[-5:].mean())
    assert reward.t == pytest.approx(t)
    assert (rows["entropy"].t, rows["turns"].first) == (None, None)


def test_denominators_are_raw() -> None:
    """30 of 64 rollouts were thrown away, 8 of them truncated: the share is of 64."""
    acted = count_acts([trajectory(stop_reason=StopReason.TRUNCATED_TURNS)] * 8 + [trajectory()] * 56)
    series = make_series([step(1, acted=acted, dropped={"ungraded:timeout": 22, "zero_variance": 8})])
    assert series.values("truncated")[0] == 8 / 64
    assert series.values("ungraded")[0] == 22 / 64
    assert series.values("graded")[0] == 42


def test_one_repeated_token_and_unreadable_calls_are_counted() -> None:
    bangs = trajectory(sampled=40)
    turn = bangs.turns[0]
    bangs = replace(
        bangs,
        turns=(replace(turn, sampled_ids=np.zeros(40, np.int32)),),
        messages=({"role": "assistant", "content": "<tool_call>\n{broken"},),
    )
    fine = trajectory(
        sampled=40, messages=({"role": "assistant", "content": "", "tool_calls": [{"id": "1"}, {"id": "2"}]},)
    )
    acted = count_acts([bangs, fine])
    assert (acted.dominated, acted.malformed, acted.calls, acted.silent, acted.turns) == (1, 1, 2, 1, 2)


def test_the_first_step_behind_a_resume_is_known() -> None:
    def event(kind: str, **fields: object) -> Event:
        return Event(time=0.0, kind=kind, fields=fields)

    events = [
        event("started", pid=1),
        event("stage", stage="rollout", step=1),
        event("started", pid=2, resumed=True),
        event("stage", stage="tasks", step=4),
        event("stage", stage="rollout", step=5),
        event("stage", stage="rollout", step=6),
    ]
    assert resumed_steps(events) == (5,)


def test_every_metric_that_a_policy_can_bound_is_a_column() -> None:
    assert set(COLUMNS) == set(Limit.model_json_schema()["properties"]["metric"]["enum"])


@pytest.mark.parametrize(
    ("reward", "since", "n", "verdict"),
    [
        (0.0, 12, 14, Verdict.WATCH),  # three steps
        (0.0, 12, 15, Verdict.COLLAPSED),
        (0.3, 12, 15, Verdict.WATCH),  # it still earns: another way to work
        (0.0, 3, 6, Verdict.WATCH),  # it never worked
    ],
)
def test_nothing_readable_and_nothing_earned_any_more_is_a_collapse_within_four_steps(
    reward: float, since: int, n: int, verdict: Verdict
) -> None:
    fine = Acted(turns=640, truncated=2, calls=640, malformed=4, silent=1, dominated=0, stop_reasons={})
    gone = replace(fine, calls=0, malformed=64)
    diagnosis = run(
        n,
        acted=lambda i: gone if i >= since else fine,
        reward_mean=lambda i: reward if i >= since else 0.4,
    )
    assert diagnosis.verdict is verdict
