"""One optimizer step: what it computes, what it measures, what it refuses."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from lego_core.config import TrainConfig
from lego_core.errors import TrainingError
from lego_core.inference.canary import reference_logprobs
from lego_core.training.trainer import Trainer, TrainerSpec
from lego_harness.errors import UsageError
from tests.support.samples import random_sample
from tests.support.tiny_model import build_random_model

# AdamW with a huge eps is plain gradient descent, so weights after a step show the gradient itself.
DESCENT = {"adam_eps": 1e6, "learning_rate": 1e6, "adam_betas": (0.0, 0.0)}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return build_random_model(tmp_path_factory.mktemp("model"), hidden=32, vocab=512)


def trainer(model_dir, *, dtype="float32", temperature=1.0, **config):
    settings = {"kl_coef": 0.0, "learning_rate": 1e-3, **config}
    return Trainer(
        TrainerSpec(
            model_dir=model_dir,
            config=TrainConfig(**settings),
            temperature=temperature,
            dtype=dtype,
            experts="eager" if dtype == "float64" else "grouped_mm",
        )
    )


def weights(trained, tmp_path):
    trained.export(tmp_path / "w.safetensors")
    return load_file(tmp_path / "w.safetensors")


def batch(n=6, **kwargs):
    return [
        random_sample(f"r{i}", 30 + 7 * (i % 3), seed=i, advantage=(-1.0) ** i, **kwargs) for i in range(n)
    ]


def cut(sample, cuts):
    """The same trajectory as several branches, each owning the tokens between two cuts."""
    edges = [0, *sorted(cuts), len(sample.ids)]
    pieces = []
    for a, b in itertools.pairwise(edges):
        mask = sample.mask & (np.arange(len(sample.ids)) >= a) & (np.arange(len(sample.ids)) < b)
        if mask.any():
            pieces.append(
                replace(
                    sample,
                    ids=sample.ids[:b],
                    mask=mask[:b],
                    rollout_logprobs=np.where(mask, sample.rollout_logprobs, 0)[:b],
                    routes=sample.routes[:b],
                )
            )
    return pieces


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.lists(st.integers(11, 29), max_size=3), min_size=3, max_size=3),
    bound=st.sampled_from([40, 90, 10_000]),
)
def test_splitting_a_trajectory_changes_neither_loss_nor_gradients(model_dir, tmp_path, cuts, bound):
    whole = batch(3)
    split = [piece for sample, at in zip(whole, cuts, strict=True) for piece in cut(sample, at)]
    config = {"updates_per_batch": 2, "kl_coef": 1e-2, "clip_low": 0.5, "clip_high": 0.5, **DESCENT}
    first = trainer(model_dir, dtype="float64", micro_batch_tokens=10_000, **config)
    second = trainer(model_dir, dtype="float64", micro_batch_tokens=bound, **config)
    a, b = first.train_step(whole), second.train_step(split)
    assert b.loss == pytest.approx(a.loss, rel=1e-6)
    assert b.grad_norm == pytest.approx(a.grad_norm, rel=1e-6)
    assert b.trained_tokens == a.trained_tokens
    start = load_file(model_dir / "model.safetensors")
    one, two = weights(first, tmp_path), weights(second, tmp_path)
    for name, tensor in one.items():
        step, other = tensor - start[name].double(), two[name] - start[name].double()
        assert torch.allclose(step, other, rtol=1e-6, atol=1e-6 * step.abs().max().item() + 1e-15), name


def test_log_probabilities_are_those_of_a_plain_forward_pass_at_the_samplers_temperature(model_dir):
    sample = random_sample("r0", 50, routed=False)
    sample = replace(sample, mask=np.arange(50) >= 20)
    expected = np.zeros(50)
    expected[20:] = reference_logprobs(model_dir, sample.ids[:20], sample.ids[20:])
    sample = replace(sample, rollout_logprobs=expected.astype(np.float32))
    assert trainer(model_dir).train_step([sample]).mean_abs_dlogp < 1e-6
    assert trainer(model_dir, temperature=0.5).train_step([sample]).mean_abs_dlogp > 1e-2


def test_a_first_update_has_ratio_one_and_a_second_one_clips(model_dir):
    assert trainer(model_dir, updates_per_batch=1).train_step(batch()).clip_fraction == 0
    assert trainer(model_dir, updates_per_batch=2).train_step(batch()).clip_fraction > 0


def plain_logprobs(folder, sample):
    """`[n]` of the sample's trained tokens by transformers' own forward pass in float64, natively routed."""
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, experts_implementation="eager"
    ).eval()
    ids = torch.from_numpy(sample.ids.astype(np.int64))[None]
    with torch.no_grad():
        logp = model(ids, use_cache=False).logits[0, :-1].log_softmax(-1)
    return logp.gather(-1, ids[0, 1:, None])[:, 0].numpy()[sample.mask[1:]]


@pytest.mark.parametrize("objective", ["gspo", "dapo"])
def test_the_second_update_clips_and_its_loss_is_the_formulas(model_dir, tmp_path, objective):
    bounds = (
        {"clip_low": 3e-4, "clip_high": 4e-4}
        if objective == "gspo"
        else {"clip_low": 1e-3, "clip_high": 2e-3}
    )
    config = {"objective": objective, "learning_rate": 3e-4, **bounds}
    samples = batch(4, routed=False)
    once = trainer(model_dir, dtype="float64", **config)
    once.train_step(samples)
    once.save_checkpoint(tmp_path / "after", {})
    twice = trainer(model_dir, dtype="float64", updates_per_batch=2, **config).train_step(samples)
    losses, clipped, sizes = [], [], []
    for sample in samples:
        delta = plain_logprobs(tmp_path / "after", sample) - plain_logprobs(model_dir, sample)
        ratio = np.exp(np.full_like(delta, delta.mean()) if objective == "gspo" else delta)
        bounded = ratio.clip(1 - bounds["clip_low"], 1 + bounds["clip_high"])
        token = np.maximum(-sample.advantage * ratio, -sample.advantage * bounded)
        losses.append(token)
        clipped.append(-sample.advantage * bounded > -sample.advantage * ratio)
        sizes.append(len(token))
    weights = [np.full(n, 1 / (len(sizes) * n) if objective == "gspo" else 1 / sum(sizes)) for n in sizes]
    second = sum((w * x).sum() for w, x in zip(weights, losses, strict=True))
    first = sum((w * -s.advantage).sum() for w, s in zip(weights, samples, strict=True))
    share = sum((w * c).sum() for w, c in zip(weights, clipped, strict=True))
    assert share > 0.1
    assert twice.clip_fraction == pytest.approx(share / 2, rel=1e-9)
    assert twice.loss == pytest.approx((first + second) / 2, rel=1e-9)


def test_with_the_engines_logprobs_as_old_ones_the_first_update_clips_already(model_dir):
    first = trainer(model_dir, old_logprobs="rollout").train_step(batch())
    assert first.clip_fraction > 0
    corrected = trainer(model_dir, rollout_correction="mask", correction_bound=1.0001).train_step(batch())
    assert corrected.clip_fraction == 0
    assert corrected.grad_norm < trainer(model_dir).train_step(batch()).grad_norm


def test_tokens_of_other_versions_are_reported_by_lag_and_not_as_agreement(model_dir):
    fresh = [replace(s, versions=np.full(len(s.ids), 6, np.int32)) for s in batch(2)]
    stale = [
        replace(s, rollout_id=f"{s.rollout_id}b", versions=np.full(len(s.ids), 4, np.int32)) for s in fresh
    ]
    mixed = replace(fresh[1], versions=np.where(np.arange(len(fresh[1].ids)) < 25, 5, 6).astype(np.int32))
    alone = trainer(model_dir).train_step(fresh, 7)
    both = trainer(model_dir).train_step([*fresh, *stale], 7)
    assert (alone.mean_abs_dlogp, alone.k3) == (both.mean_abs_dlogp, both.k3)
    assert alone.rollout_gap == both.rollout_gap
    assert 0 < alone.rollout_gap["p50"] <= alone.rollout_gap["p90"] <= alone.rollout_gap["p99"]
    assert {lag: a.tokens for lag, a in both.by_lag.items()} == {
        "0": alone.trained_tokens,
        "2": alone.trained_tokens,
    }
    only_stale = trainer(model_dir).train_step(stale, 7)
    assert (only_stale.pearson_r, only_stale.rollout_gap) == (None, {})
    assert set(trainer(model_dir).train_step([mixed], 7).by_lag) == {"0", "1"}


def test_a_good_rollout_becomes_likelier_and_a_bad_one_less_so(model_dir):
    trained = trainer(model_dir, learning_rate=1e-2)
    before = [trained_logp(trained, s) for s in batch(2)]
    trained.train_step(batch(2))
    after = [trained_logp(trained, s) for s in batch(2)]
    assert after[0] > before[0]
    assert after[1] < before[1]


def trained_logp(trained, sample):
    """Mean log-probability, read off the metrics of a step that cannot move anything."""
    probe = replace(sample, advantage=0.0, rollout_logprobs=np.zeros_like(sample.rollout_logprobs))
    frozen = trained.train_step([probe])
    return -frozen.mean_abs_dlogp


@pytest.mark.parametrize(("step", "share"), [(1, 1.0), (6, 0.6), (11, 0.2)])
def test_the_learning_rate_falls_linearly_to_what_is_left_of_it(model_dir, tmp_path, step, share):
    falling = trainer(model_dir, learning_rate=1e-2, learning_rate_left=0.2, steps=11)
    constant = trainer(model_dir, learning_rate=1e-2 * share, steps=11)
    falling.train_step(batch(2), step)
    constant.train_step(batch(2), step)
    got, expected = weights(falling, tmp_path), weights(constant, tmp_path)
    assert all(torch.equal(got[name], expected[name]) for name in expected)


def test_a_learning_rate_of_zero_moves_nothing(model_dir, tmp_path):
    trained = trainer(model_dir, learning_rate=0)
    before = weights(trained, tmp_path)
    trained.train_step(batch())
    after = weights(trained, tmp_path)
    assert all(torch.equal(before[n], after[n]) for n in before)


def test_the_kl_loss_is_zero_at_the_reference_and_pulls_back_to_it(model_dir):
    trained = trainer(model_dir, kl_coef=1.0, learning_rate=1e-2)
    assert trained.train_step(batch()).kl_loss == pytest.approx(0, abs=1e-9)
    assert trained.train_step(batch()).kl_loss > 1e-4


def test_replay_is_followed_measured_and_can_be_off(model_dir):
    samples = batch()
    on = trainer(model_dir).train_step(samples)
    off = trainer(model_dir, routing_replay=False).train_step(samples)
    native = trainer(model_dir).train_step([replace(s, routes=None) for s in samples])
    assert on.routing_coverage == 1.0
    assert 0 < on.expert_overlap < 0.6
    assert (off.routing_coverage, off.expert_overlap, off.top1_agreement) == (0.0, None, None)
    assert on.loss == pytest.approx(off.loss)
    assert on.mean_abs_dlogp != off.mean_abs_dlogp
    assert native.mean_abs_dlogp == off.mean_abs_dlogp


def test_a_missing_row_is_routed_natively_and_lowers_the_coverage(model_dir):
    samples = batch()
    routes = samples[0].routes.copy()
    routes[:10] = -1
    got = trainer(model_dir).train_step([replace(samples[0], routes=routes), *samples[1:]])
    wanted = sum(len(s.ids) - 1 for s in samples)
    assert got.routing_coverage == pytest.approx((wanted - 10) / wanted)


def test_router_weights_learn_although_their_choice_is_replayed(model_dir, tmp_path):
    trained = trainer(model_dir, **DESCENT)
    before = weights(trained, tmp_path)
    trained.train_step(batch())
    after = weights(trained, tmp_path)
    gates = [n for n in before if n.endswith("mlp.gate.weight")]
    assert len(gates) == 2
    assert all((after[n] - before[n]).abs().max() > 1e-7 for n in gates)


def faulty_routes(fault):
    sample = random_sample("s1.g2.r3", 30)
    routes = sample.routes.copy()
    fault(routes)
    return replace(sample, routes=routes)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda r: r.__setitem__(slice(3), 0), "name an expert twice"),
        (lambda r: r.__setitem__((4, 0, 0), 8), "from -1 to 8, expected −1 to 7"),
        (lambda r: r.__setitem__((4, 0, 0), -1), "recorded only in part"),
    ],
)
def test_routes_that_are_well_shaped_and_wrong_are_refused(model_dir, fault, message):
    with pytest.raises(TrainingError, match=rf"s1\.g2\.r3.*{message}"):
        trainer(model_dir).train_step([faulty_routes(fault)])


def test_routes_of_another_model_are_refused(model_dir):
    with pytest.raises(TrainingError, match=r"shape \(40, 3, 2\), expected \(40, 2, 2\)"):
        trainer(model_dir).train_step([random_sample("r0", layers=3)])


def test_a_non_finite_gradient_refuses_the_step_and_keeps_the_weights(model_dir, tmp_path):
    trained = trainer(model_dir)
    before = weights(trained, tmp_path)
    with pytest.raises(TrainingError, match="gradient norm is nan"):
        trained.train_step([replace(s, advantage=float("nan")) for s in batch()])
    after = weights(trained, tmp_path)
    assert all(torch.equal(before[n], after[n]) for n in before)
    trained.train_step(batch())


def test_a_batch_that_trains_nothing_is_refused(model_dir):
    sample = random_sample("r0")
    with pytest.raises(TrainingError, match="empty batch"):
        trainer(model_dir).train_step([])
    with pytest.raises(TrainingError, match="r0: a sample must train"):
        trainer(model_dir).train_step([replace(sample, mask=np.zeros_like(sample.mask))])


def test_the_order_of_samples_and_the_size_of_micro_batches_do_not_matter(model_dir):
    samples = batch()
    a = trainer(model_dir, dtype="float64", **DESCENT).train_step(samples)
    b = trainer(model_dir, dtype="float64", micro_batch_tokens=50, **DESCENT).train_step(samples[::-1])
    assert b.loss == pytest.approx(a.loss, rel=1e-9)
    assert b.grad_norm == pytest.approx(a.grad_norm, rel=1e-9)
    assert b.entropy == pytest.approx(a.entropy, rel=1e-9)
    assert b.k3 == pytest.approx(a.k3, rel=1e-9)


def test_entropy_is_in_nats_and_near_uniform_for_a_random_model(model_dir):
    assert trainer(model_dir).train_step(batch()).entropy == pytest.approx(np.log(512), abs=0.1)


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(UsageError, match=str(tmp_path)):
        trainer(tmp_path)
