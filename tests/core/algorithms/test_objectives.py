"""The other objectives and the correction, against numbers worked out by hand in float64."""

from __future__ import annotations

import math

import pytest
import torch

from lego_core.algorithms.cispo import Cispo
from lego_core.algorithms.correction import rollout_correction
from lego_core.algorithms.dr_grpo import DrGrpo
from lego_core.algorithms.grpo import Dapo, Grpo
from lego_core.algorithms.gspo import Gspo
from lego_core.algorithms.objective import policy_loss

# Rollout 0 has three tokens and advantage 1, rollout 1 two and −½. Ratios: e^0.1, e^−0.1, e^0.3; e^−0.2 twice.
OLD = torch.tensor([-1.0, -2.0, -0.5, -1.5, -0.7], dtype=torch.float64)
DELTA = torch.tensor([0.1, -0.1, 0.3, -0.2, -0.2], dtype=torch.float64)
ROLLOUT = torch.tensor([0, 0, 0, 1, 1])
COUNTS = torch.tensor([3.0, 2.0], dtype=torch.float64)
ADVANTAGE = torch.tensor([1.0, 1.0, 1.0, -0.5, -0.5], dtype=torch.float64)
BOUNDS = {"clip_low": 0.2, "clip_high": 0.2}
E01, E_01, E_02 = 1.1051709180756477, 0.9048374180359595, 0.8187307530779818


def loss_and_gradient(objective, **kwargs):
    logp = (OLD + DELTA).requires_grad_()
    weight = objective.weights(COUNTS, ROLLOUT)
    result = policy_loss(objective, logp, DELTA, ADVANTAGE, weight, **kwargs)
    result.loss.backward()
    return result, logp.grad.tolist()


def test_grpo_clips_each_token_and_weighs_rollouts_alike():
    result, gradient = loss_and_gradient(Grpo(**BOUNDS))
    # ½ (−(e^0.1 + e^−0.1 + 1.2) / 3 + ½ e^−0.2)
    assert result.loss.item() == pytest.approx(-0.3303187010824391, rel=1e-12)
    assert result.clipped.item() == pytest.approx(1 / 6)
    assert gradient == pytest.approx([-E01 / 6, -E_01 / 6, 0, *[E_02 / 8] * 2], rel=1e-12)


def test_dapo_weighs_tokens_alike():
    result, gradient = loss_and_gradient(Dapo(**BOUNDS))
    # (−(e^0.1 + e^−0.1 + 1.2) + 2 · ½ e^−0.2) / 5
    assert result.loss.item() == pytest.approx(-0.47825551660672508, rel=1e-12)
    assert result.clipped.item() == pytest.approx(1 / 5)
    assert gradient == pytest.approx([-E01 / 5, -E_01 / 5, 0, *[E_02 / 10] * 2], rel=1e-12)


def test_dapos_clip_higher_leaves_the_upper_token_its_gradient():
    result, gradient = loss_and_gradient(Dapo(clip_low=0.2, clip_high=0.4))
    assert result.clipped.item() == 0
    assert gradient[2] == pytest.approx(-math.exp(0.3) / 5, rel=1e-12)


def test_dr_grpo_divides_by_a_constant_length():
    result, gradient = loss_and_gradient(DrGrpo(**BOUNDS, max_tokens=10))
    # the same sum over 2 rollouts · 10 tokens
    assert result.loss.item() == pytest.approx(-0.11956387915168127, rel=1e-12)
    assert gradient == pytest.approx([-E01 / 20, -E_01 / 20, 0, *[E_02 / 40] * 2], rel=1e-12)


def test_cispo_bounds_the_weight_and_keeps_every_gradient():
    result, gradient = loss_and_gradient(Cispo(**BOUNDS))
    # −Σ clip(r) A logp / 5 with logp −0.9, −2.1, −0.2, −1.7, −0.9
    assert result.loss.item() == pytest.approx(0.41409248502844432, rel=1e-12)
    assert result.clipped.item() == pytest.approx(1 / 5)
    assert gradient == pytest.approx([-E01 / 5, -E_01 / 5, -1.2 / 5, *[E_02 / 10] * 2], rel=1e-12)


@pytest.mark.parametrize("objective", [Gspo, Grpo, Dapo, Cispo])
def test_with_ratio_one_every_objective_is_reinforce(objective):
    made = objective(**BOUNDS)
    logp = OLD.clone().requires_grad_()
    weight = made.weights(COUNTS, ROLLOUT)
    result = policy_loss(made, logp, torch.zeros_like(OLD), ADVANTAGE, weight)
    result.loss.backward()
    assert result.clipped.item() == 0
    assert logp.grad.tolist() == pytest.approx((-weight * ADVANTAGE).tolist(), rel=1e-12)


@pytest.mark.parametrize("made", [Gspo(**BOUNDS), Grpo(**BOUNDS), Dapo(**BOUNDS)])
def test_weights_of_a_batch_sum_to_one(made):
    assert made.weights(COUNTS, ROLLOUT).sum().item() == pytest.approx(1)


OFF = torch.tensor([math.log(3), math.log(0.4), 0.1, 0.0, 50.0], dtype=torch.float64)


def test_truncation_caps_a_weight_and_masking_drops_it():
    truncated = rollout_correction(OLD, OLD - OFF, kind="truncate", bound=2.0)
    masked = rollout_correction(OLD, OLD - OFF, kind="mask", bound=2.0)
    assert truncated.tolist() == pytest.approx([2, 0.4, E01, 1, 2], rel=1e-12)
    assert masked.tolist() == pytest.approx([0, 0, E01, 1, 0], rel=1e-12)
    assert rollout_correction(OLD, OLD - OFF, kind="off", bound=2.0) is None


def test_the_correction_scales_the_policy_loss_and_not_the_kl():
    correction = torch.tensor([0.0, 2.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    reference = (OLD + DELTA) + 0.1
    result, _ = loss_and_gradient(Dapo(**BOUNDS), correction=correction, reference=reference, kl_coef=1.0)
    # (−2 e^−0.1 − 1.2 + e^−0.2) / 5 + (e^0.1 − 1.1)
    assert result.loss.item() == pytest.approx(-0.43301789852313977, rel=1e-12)
    assert result.kl.item() == pytest.approx(0.005170918075647624, rel=1e-9)
