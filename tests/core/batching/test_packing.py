"""Micro-batches hold every sample once, within their bound."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lego_core.batching.packing import pack, split_lengths
from lego_core.types import Sample

LENGTHS = st.lists(st.integers(2, 60), min_size=1, max_size=20)


def sample(rollout_id, length, *, routed=True):
    rng = np.random.default_rng(length)
    mask = rng.random(length) < 0.5
    mask[0], mask[-1] = False, True
    return Sample(
        rollout_id=rollout_id,
        ids=rng.integers(1, 50, length).astype(np.int32),
        mask=mask,
        rollout_logprobs=np.where(mask, -rng.random(length), 0).astype(np.float32),
        advantage=float(length),
        routes=rng.integers(0, 4, (length, 2, 2)).astype(np.int16) if routed else None,
    )


@given(LENGTHS, st.integers(1, 200))
def test_every_sample_lands_in_one_micro_batch_within_the_bound(lengths, bound):
    bins = split_lengths(lengths, max_tokens=bound)
    assert sorted(i for b in bins for i in b) == list(range(len(lengths)))
    for members in bins:
        padded = len(members) * max(lengths[i] for i in members)
        assert padded <= bound or len(members) == 1


@given(LENGTHS)
def test_packing_keeps_ids_masks_routes_and_the_order_of_trained_tokens(lengths):
    samples = [sample(f"r{i % 3}", n) for i, n in enumerate(lengths)]
    batches, rollouts = pack(samples, max_tokens=100)
    assert rollouts == min(3, len(samples))
    order = [i for b in split_lengths(lengths, max_tokens=100) for i in b]
    row = 0
    for batch in batches:
        seen = 0
        for b, length in enumerate(batch.lengths):
            source = samples[order[row]]
            row += 1
            assert (batch.ids[b, :length] == source.ids).all()
            assert (batch.ids[b, length:] == 0).all()
            assert (batch.mask[b, :length] == source.mask).all()
            assert not batch.mask[b, length:].any()
            assert (batch.routes[b, :length] == source.routes).all()
            assert (batch.routes[b, length:] == -1).all()
            count = int(source.mask.sum())
            owned = slice(seen, seen + count)
            assert (batch.rollout[owned] == int(source.rollout_id[1:])).all()
            assert (batch.advantage[owned] == source.advantage).all()
            assert (batch.rollout_logprobs[owned] == source.rollout_logprobs[source.mask]).all()
            seen += count
        assert seen == len(batch.rollout)


def test_a_sample_without_routes_beside_one_with_them_routes_natively():
    batches, _ = pack([sample("r0", 5), sample("r1", 5, routed=False)], max_tokens=100)
    assert (batches[0].routes[1] == -1).all()
    assert (batches[0].routes[0] >= 0).any()


@given(LENGTHS, st.integers(2, 4))
def test_a_packed_row_can_be_cut_into_equal_slices_and_trains_the_same_tokens(lengths, slices):
    samples = [sample(f"r{i % 3}", n) for i, n in enumerate(lengths)]
    plain, _ = pack(samples, max_tokens=100, packed=True)
    filled, _ = pack(samples, max_tokens=100, packed=True, multiple=slices)
    for one, other in zip(plain, filled, strict=True):
        length = one.ids.shape[1]
        assert other.ids.shape[1] == -(-length // slices) * slices
        assert (other.ids[:, :length] == one.ids).all()
        assert not other.mask[:, length:].any()
        assert (other.routes[:, length:] == -1).all()
        assert (other.predictor == one.predictor).all()
        assert (other.targets == one.targets).all()
        assert sorted(row for p in other.paths for row in p.rows[p.start :]) == list(
            range(other.ids.shape[1])
        )
