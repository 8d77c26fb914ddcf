"""What holds for every model family: names, replay, packing, chunks and recomputed activations."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch.utils._python_dispatch import TorchDispatchMode

from lego_core.batching.packing import pack
from lego_core.training.logprobs import score_tokens, to_device
from lego_core.training.model import checkpoint_tensors
from lego_core.training.routing_replay import RouterAgreement
from lego_core.training.scorer import load_scorer
from tests.support.samples import random_sample
from tests.support.tiny_model import build_random_hybrid, build_random_mixtral, build_random_model

FAMILIES = {"qwen3": build_random_model, "qwen3_5": build_random_hybrid, "mixtral": build_random_mixtral}
DOUBLE = torch.float64
CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request, tmp_path_factory):
    return FAMILIES[request.param](tmp_path_factory.mktemp(request.param))


def scorer(folder, **options):
    return load_scorer(folder, dtype=DOUBLE, device=CPU, experts="eager", temperature=1.0, **options)


def layers_of(folder):
    return 4 if "qwen3_5" in folder.name else 2


def branches(folder):
    """Two rollouts: one of a trunk and two branches off it, one of two samples with nothing in common."""
    layers = layers_of(folder)
    trunk = random_sample("a", 41, seed=1, layers=layers)
    forks = []
    for at, seed in ((23, 2), (30, 3)):
        other = random_sample("a", 37 + seed, seed=seed, layers=layers, advantage=-0.5)
        ids, routes = other.ids.copy(), other.routes.copy()
        ids[:at], routes[:at] = trunk.ids[:at], trunk.routes[:at]
        mask = other.mask & (np.arange(len(ids)) >= at)
        forks.append(replace(other, ids=ids, routes=routes, mask=mask))
    rest = [random_sample("b", n, seed=n, layers=layers) for n in (19, 64)]
    return [trunk, *forks, *rest]


def gradients_of(policy, samples, *, packed, max_tokens=10_000, chunk=None):
    """`{(rollout, token): logp}` is too much to compare: the sum weighted by place, and its gradient."""
    batches, _ = pack(samples, max_tokens=max_tokens, packed=packed)
    policy.model.zero_grad()
    total, entropies = 0.0, 0.0
    for batch in (to_device(b, CPU, DOUBLE) for b in batches):
        with policy.bound(batch):
            score = score_tokens(policy.model, batch, temperature=1.0, chunk=chunk)
            weight = torch.cos(batch.targets.double() + 7 * batch.rollout)
            loss = (weight * score.logp).sum()
            loss.backward()
        total += loss.item()
        entropies += score.entropy.sum().item()
    return total, entropies, {n: p.grad.clone() for n, p in policy.model.named_parameters()}


def assert_same(one, two):
    """To 1e-6 of a gradient's size: norms compute in float32 whatever the model's type is. All of the gated
    delta rule does, and some of its gradients nearly cancel: there it is the largest gradient's size."""
    assert two[:2] == pytest.approx(one[:2], rel=1e-6)
    sizes = {name: gradient.abs().max().item() for name, gradient in one[2].items()}
    largest = max(sizes.values()) if any("linear_attn" in name for name in sizes) else 0.0
    for name, gradient in one[2].items():
        difference = (two[2][name] - gradient).abs().max().item()
        assert difference <= 1e-6 * max(sizes[name], largest) + 1e-12, name


def test_weights_have_the_names_of_the_checkpoint(folder):
    named = dict(checkpoint_tensors(scorer(folder).model))
    with safe_open(folder / "model.safetensors", "pt") as stored:
        assert sorted(named) == sorted(stored.keys())
        for name, tensor in named.items():
            assert torch.equal(tensor, stored.get_tensor(name).double()), name


def test_packed_chunked_and_recomputed_are_what_plain_is(folder):
    plain, samples = scorer(folder), branches(folder)
    expected = gradients_of(plain, samples, packed=False)
    assert_same(expected, gradients_of(plain, samples, packed=False, max_tokens=100))
    assert_same(expected, gradients_of(plain, samples, packed=False, chunk=3 * 512))
    packed = scorer(folder, packed=True, checkpointed=True)
    assert_same(expected, gradients_of(packed, samples, packed=True))
    assert_same(expected, gradients_of(packed, samples, packed=True, max_tokens=90, chunk=512))


class Operations(TorchDispatchMode):
    """How often each is computed within the context."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.counted[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))

    def __init__(self):
        super().__init__()
        self.counted = Counter()


def operations_of(folder, **options):
    policy, samples = scorer(folder, packed=True, **options), branches(folder)
    with Operations() as operations:
        gradients_of(policy, samples, packed=True)
    return operations.counted


def test_layers_are_recomputed_without_what_grows_with_the_square_of_the_length(folder):
    plain, recomputed = operations_of(folder), operations_of(folder, checkpointed=True)
    attention = "_scaled_dot_product_flash_attention_for_cpu"
    assert recomputed[attention] == plain[attention] > 0
    assert recomputed["mm"] > plain["mm"]


def test_what_branches_share_is_computed_once(folder):
    samples = branches(folder)
    (batch,), _ = pack(samples, max_tokens=10_000, packed=True)
    assert sum(len(s.ids) for s in samples) == 41 + 39 + 40 + 19 + 64
    assert batch.ids.shape == (1, 41 + (39 - 23) + (40 - 30) + 19 + 64)
    other_routes = replace(samples[1], routes=samples[1].routes[::-1].copy())
    (apart,), _ = pack([samples[0], other_routes], max_tokens=10_000, packed=True)
    assert apart.ids.shape == (1, 41 + 39)


def native_routes(policy, sample):
    """`[T, L, K]` of a forward pass that replays nothing; a row for every position but the last."""
    rows = []
    hooks = [r.register_forward_hook(lambda _m, _i, out: rows.append(out[2])) for _, r in policy.routers]
    (batch,), _ = pack([replace(sample, routes=None)], max_tokens=10_000)
    with policy.bound(to_device(batch, CPU, DOUBLE)) as score:
        logp = score.logp.detach()
    for hook in hooks:
        hook.remove()
    routes = torch.stack(rows, 1).numpy().astype(np.int16)
    routes[-1] = -1
    return routes, logp


def replayed(policy, sample):
    agreement = RouterAgreement()
    (batch,), _ = pack([sample], max_tokens=10_000)
    with policy.bound(to_device(batch, CPU, DOUBLE), agreement) as score:
        (-score.logp.sum()).backward()
    return score.logp.detach(), agreement


def test_replaying_what_the_model_chose_changes_nothing_and_other_routes_do(folder):
    policy = scorer(folder, checkpointed=True)
    sample = random_sample("a", 60, seed=5, layers=layers_of(folder))
    routes, expected = native_routes(policy, sample)
    logp, agreement = replayed(policy, replace(sample, routes=routes))
    assert (logp - expected).abs().max() < 1e-12
    # recomputation in backward replays the same rows and counts none of them again
    assert agreement.rows == 59 * layers_of(folder)
    assert agreement.overlap == agreement.top1 == pytest.approx(agreement.rows)
    late = np.roll(routes, 1, axis=0)
    assert (replayed(policy, replace(sample, routes=late))[0] - expected).abs().max() > 1e-2
    swapped = routes[:, ::-1].copy()
    assert (replayed(policy, replace(sample, routes=swapped))[0] - expected).abs().max() > 1e-2


def test_gradients_reach_every_router_through_replayed_choices(folder):
    policy = scorer(folder, checkpointed=True)
    replayed(policy, random_sample("a", 60, seed=6, layers=layers_of(folder)))
    gates = [p.grad for n, p in policy.model.named_parameters() if n.endswith("mlp.gate.weight")]
    assert len(gates) == layers_of(folder)
    assert min(g.abs().max().item() for g in gates) > 1e-6
