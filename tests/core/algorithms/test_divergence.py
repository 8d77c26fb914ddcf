"""Divergences between two sets of log-probabilities."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lego_core.algorithms.divergence import agreement, k3, k3_penalty, rollout_gaps

LOGPS = st.lists(st.tuples(st.floats(-8, -1e-3), st.floats(-8, -1e-3)), min_size=3, max_size=50)


def test_k3_is_exact_by_hand_and_where_float64_subtraction_would_lose_it():
    d = torch.tensor([0.5, -0.5, 1e-7], dtype=torch.float64)
    expected = [math.exp(0.5) - 1.5, math.exp(-0.5) - 0.5, 5e-15]
    assert k3(d).tolist() == pytest.approx(expected, rel=1e-2)
    assert k3(d).tolist()[:2] == pytest.approx(expected[:2], rel=1e-12)


@given(LOGPS)
def test_agreement_is_what_numpy_says(pairs):
    new, old = np.array(pairs).T
    got = agreement(torch.tensor(new), torch.tensor(old))
    assert got.mean_abs_dlogp == pytest.approx(np.abs(new - old).mean(), rel=1e-9)
    assert got.mean_abs_dp == pytest.approx(np.abs(np.exp(new) - np.exp(old)).mean(), rel=1e-9, abs=1e-12)
    assert got.k3 >= 0
    if np.std(new) > 1e-4 and np.std(old) > 1e-4:
        assert got.pearson_r_logp == pytest.approx(np.corrcoef(new, old)[0, 1], rel=1e-6, abs=1e-9)
    if np.std(np.exp(new)) > 1e-4 and np.std(np.exp(old)) > 1e-4:
        assert got.pearson_r == pytest.approx(np.corrcoef(np.exp(new), np.exp(old))[0, 1], rel=1e-6, abs=1e-9)


def test_identical_log_probabilities_agree_perfectly():
    logp = torch.tensor([-1.0, -2.0, -3.0])
    assert agreement(logp, logp).pearson_r == 1.0
    assert agreement(logp, logp).k3 == 0.0


def test_a_single_different_token_has_no_correlation():
    assert agreement(torch.tensor([-1.0]), torch.tensor([-1.1])).pearson_r is None


def test_one_outlier_does_not_own_the_kl_gradient():
    logp = torch.tensor([-60.0, -1.0], dtype=torch.float64, requires_grad=True)
    penalty = k3_penalty(logp, torch.tensor([-1.0, -1.5], dtype=torch.float64))
    penalty.sum().backward()
    assert penalty[0].item() == 10
    assert logp.grad[0] == 0
    # d/dlogp (e^d − d − 1) with d = −0.5
    assert logp.grad[1].item() == pytest.approx(1 - math.exp(-0.5))


def test_what_cancels_within_a_rollout_is_no_gap_of_it():
    trainer = torch.tensor([-1.0, -2.0, -3.0, -0.5, -0.25])
    rollout = torch.tensor([-1.5, -1.5, -3.5, -0.5, -0.75])
    gaps = rollout_gaps(trainer, rollout, torch.tensor([7, 7, 2, 2, 2]))
    assert gaps.tolist() == pytest.approx([1 / 3, 0.0], abs=1e-12)  # of rollouts 2 and 7
