"""GSPO over the rollout, against numbers worked out by hand in float64."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lego_core.algorithms.gspo import Gspo, rollout_log_ratios
from lego_core.algorithms.objective import policy_loss, sequence_mean

# Rollout 0 has three tokens, rollout 1 two; their mean log-ratios are 0.1 and −0.2.
OLD = torch.tensor([-1.0, -2.0, -0.5, -1.5, -0.7], dtype=torch.float64)
DELTA = torch.tensor([0.1, -0.1, 0.3, -0.2, -0.2], dtype=torch.float64)
ROLLOUT = torch.tensor([0, 0, 0, 1, 1])
ADVANTAGE = torch.tensor([1.0, 1.0, 1.0, -0.5, -0.5], dtype=torch.float64)


def loss_of(logp, *, low, high, **kwargs):
    ratios, counts = rollout_log_ratios(logp, OLD, ROLLOUT, 2)
    gspo = Gspo(clip_low=low, clip_high=high)
    weight = gspo.weights(counts, ROLLOUT)
    return policy_loss(gspo, logp, ratios[ROLLOUT], ADVANTAGE, weight, **kwargs)


def test_the_ratio_is_the_exponential_of_the_mean_log_ratio_of_the_rollout():
    ratios, counts = rollout_log_ratios(OLD + DELTA, OLD, ROLLOUT, 2)
    assert counts.tolist() == [3, 2]
    assert ratios.tolist() == pytest.approx([0.1, -0.2], rel=1e-12)


def test_unclipped_loss_and_gradient_match_the_formula():
    logp = (OLD + DELTA).requires_grad_()
    result = loss_of(logp, low=0.2, high=0.2)
    result.loss.backward()
    # ½ (−1 · e^0.1 + 0.5 · e^−0.2)
    assert result.loss.item() == pytest.approx(-0.3479027707683284, rel=1e-12)
    assert result.clipped.item() == 0
    # ∂/∂logp_t = −A s / (R n)
    first, second = -1.1051709180756477 / 6, 0.5 * 0.8187307530779818 / 4
    assert logp.grad.tolist() == pytest.approx([first] * 3 + [second] * 2, rel=1e-12)


def test_clipped_rollouts_have_the_bound_as_value_and_no_gradient():
    logp = (OLD + DELTA).requires_grad_()
    result = loss_of(logp, low=3e-4, high=4e-4)
    result.loss.backward()
    # ½ (−1 · 1.0004 + 0.5 · 0.9997)
    assert result.loss.item() == pytest.approx(-0.250275, rel=1e-12)
    assert result.clipped.item() == pytest.approx(1.0)
    assert logp.grad.abs().max() == 0


def test_a_ratio_that_makes_things_worse_is_not_clipped():
    logp = OLD + torch.tensor([-0.3, -0.3, -0.3, 0.3, 0.3], dtype=torch.float64)
    result = loss_of(logp, low=3e-4, high=4e-4)
    # a good rollout that became less likely, a bad one that became more so: both keep their pull
    assert result.clipped.item() == 0
    assert result.loss.item() == pytest.approx(0.5 * (-math.exp(-0.3) + 0.5 * math.exp(0.3)), rel=1e-12)


def test_the_kl_loss_is_k3_against_the_reference_weighted_like_the_loss():
    logp = (OLD + DELTA).requires_grad_()
    plain = loss_of(logp, low=0.2, high=0.2)
    with_kl = loss_of(logp, low=0.2, high=0.2, reference=logp.detach() + 0.1, kl_coef=0.5)
    # e^0.1 − 0.1 − 1 on every token
    assert with_kl.kl.item() == pytest.approx(0.005170918075647624, rel=1e-9)
    assert (with_kl.loss - plain.loss).item() == pytest.approx(0.5 * 0.005170918075647624, rel=1e-9)


def test_at_the_start_of_a_step_the_ratio_is_one_and_the_gradient_is_that_of_reinforce():
    logp = OLD.clone().requires_grad_()
    result = loss_of(logp, low=3e-4, high=4e-4)
    result.loss.backward()
    assert result.loss.item() == pytest.approx(-0.25)
    assert result.clipped.item() == 0
    assert logp.grad.tolist() == pytest.approx([-1 / 6] * 3 + [0.5 / 4] * 2)


@given(
    tokens=st.lists(
        st.tuples(st.integers(0, 4), st.floats(-5, 0), st.floats(-0.5, 0.5)), min_size=1, max_size=40
    ),
    cuts=st.lists(st.integers(0, 40), max_size=4),
)
def test_micro_batches_add_up_to_the_batch_however_it_is_cut(tokens, cuts):
    rollout = torch.tensor([r for r, _, _ in tokens])
    old = torch.tensor([p for _, p, _ in tokens], dtype=torch.float64)
    delta = torch.tensor([d for _, _, d in tokens], dtype=torch.float64)
    advantage = (rollout - 2).double()
    ratios, counts = rollout_log_ratios(old + delta, old, rollout, 5)
    weight = sequence_mean(counts, rollout)

    def gradient_of(pieces):
        logp = (old + delta).requires_grad_()
        total = 0.0
        for piece in pieces:
            part = policy_loss(
                Gspo(clip_low=0.1, clip_high=0.1),
                logp[piece],
                ratios[rollout[piece]],
                advantage[piece],
                weight[piece],
            )
            part.loss.backward()
            total += part.loss.item()
        return total, logp.grad

    whole, whole_grad = gradient_of([slice(0, len(tokens))])
    edges = [0, *sorted(min(c, len(tokens)) for c in cuts), len(tokens)]
    pieces = [slice(a, b) for a, b in itertools.pairwise(edges) if b > a]
    parts, parts_grad = gradient_of(pieces)
    assert parts == pytest.approx(whole, rel=1e-9, abs=1e-12)
    assert torch.allclose(parts_grad, whole_grad, rtol=1e-9, atol=1e-12)


def test_sequence_mean_gives_every_rollout_the_same_say():
    counts = torch.tensor([3.0, 0.0, 2.0])
    weight = sequence_mean(counts, torch.tensor([0, 0, 0, 2, 2]))
    assert weight[:3].sum().item() == pytest.approx(0.5)
    assert weight[3:].sum().item() == pytest.approx(0.5)
