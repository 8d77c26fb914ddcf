"""Advantages are relative to the graded siblings of a rollout."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_core.batching.advantages import group_advantages

REWARDS = st.lists(st.floats(0, 1), min_size=1, max_size=16)


def test_centred_and_divided_by_the_unbiased_deviation():
    # mean 0.25, unbiased variance (0.75² + 3 · 0.25²) / 3 = 0.25
    got = group_advantages([1, 0, 0, 0], divide_by_std=True)
    assert got.tolist() == pytest.approx([1.5, -0.5, -0.5, -0.5], rel=1e-5)


def test_centred_only():
    assert group_advantages([1, 0, 0, 0], divide_by_std=False).tolist() == [0.75, -0.25, -0.25, -0.25]


@pytest.mark.parametrize("rewards", [[1.0], [0.0], [1.0, 1.0], [0.3] * 8, []])
@pytest.mark.parametrize("divide", [True, False])
def test_nothing_to_compare_means_no_advantage(rewards, divide):
    assert not group_advantages(rewards, divide_by_std=divide).any()


@given(REWARDS, st.booleans())
def test_advantages_of_a_group_sum_to_nothing_and_keep_the_order(rewards, divide):
    got = group_advantages(rewards, divide_by_std=divide)
    assert got.sum() == pytest.approx(0, abs=1e-6)
    assert (np.diff(got[np.argsort(rewards)]) >= -1e-12).all()
