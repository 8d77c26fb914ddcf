"""pass@k and pass^k are what brute force says they are, and their intervals cover what they promise."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_core.pass_rates import pass_rates, wilson

TRIES = st.lists(st.lists(st.booleans(), min_size=3, max_size=6), min_size=1, max_size=5)


@given(TRIES, st.integers(1, 3))
def test_the_rates_are_means_over_every_choice_of_k_attempts(attempts: list[list[bool]], k: int) -> None:
    rates = pass_rates(attempts, k)
    assert rates is not None
    chosen = [list(combinations(tries, k)) for tries in attempts]
    any_of = [sum(map(any, picks)) / len(picks) for picks in chosen]
    all_of = [sum(map(all, picks)) / len(picks) for picks in chosen]
    assert rates.pass_at_k.value == pytest.approx(sum(any_of) / len(any_of))
    assert rates.pass_hat_k.value == pytest.approx(sum(all_of) / len(all_of))
    assert rates.pass_hat_k.value <= rates.pass_at_1.value + 1e-12
    assert rates.pass_at_1.value <= rates.pass_at_k.value + 1e-12


def test_tasks_with_too_few_graded_attempts_are_left_out_and_counted() -> None:
    rates = pass_rates([[True, True], [False]], 2)
    assert rates is not None
    assert (rates.tasks, rates.pass_at_1.value) == (1, 1.0)
    assert pass_rates([[True], [False]], 2) is None


def test_wilsons_interval_is_the_published_one() -> None:
    """Brown, Cai, DasGupta 2001: 10 of 10 has the 95 % interval [0.722, 1]; 5 of 10 [0.237, 0.763]."""
    assert wilson([1.0] * 10).low == pytest.approx(0.7225, abs=1e-4)
    assert wilson([1.0] * 10).high == pytest.approx(1.0)
    half = wilson([1.0, 0.0] * 5)
    assert (half.low, half.high) == pytest.approx((0.2366, 0.7634), abs=1e-4)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_intervals_cover_the_truth_where_attempts_at_a_task_are_alike(k: int) -> None:
    """Solve rates of tasks are far apart, as those of code are; 96 tasks, 4 attempts each."""
    random_state, covered, rounds = random.Random(0), 0, 400
    truth = (1 + 0.5**k * 1) / 3  # a third is always, a third half the time and a third never solved
    for _ in range(rounds):
        rates_of_tasks = [random_state.choice((0.0, 0.5, 1.0)) for _ in range(96)]
        rates = pass_rates([[random_state.random() < p for _ in range(4)] for p in rates_of_tasks], k)
        assert rates is not None
        covered += rates.pass_hat_k.low <= truth <= rates.pass_hat_k.high
    assert covered / rounds >= 0.94
