"""A call that publishes cut is, joined, what an uncut call would have been, each token by its own weights."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lego_core.inference.partial import joined, remaining
from lego_harness.types import GenerateRequest, Generation, Sampling, token_versions

LENGTH = 12
"""Tokens an uncut call samples."""


def ask(*, context: int = 5, routes_from: int = 2) -> GenerateRequest:
    return GenerateRequest(
        request_id="call",
        context_ids=np.arange(context, dtype=np.int32),
        sampling=Sampling(max_tokens=LENGTH, seed=3),
        stop_ids=(),
        routes_from=routes_from,
    )


def sample(request: GenerateRequest, count: int, version: int) -> Generation:
    """`count` tokens as an engine of that version would return them: the id at position p is p, and a
    routing row says its position and the version that computed it."""
    n = len(request.context_ids)
    positions = np.arange(request.routes_from, n + count - 1)
    rows = np.stack([positions, np.full(len(positions), version)], 1)
    return Generation(
        ids=np.arange(n, n + count, dtype=np.int32),
        logprobs=np.full(count, -float(version), np.float32),
        routes=rows[:, None, :].astype(np.int16),
        finish_reason="length" if count == request.sampling.max_tokens else "abort",
        policy_version=version,
    )


def through(request: GenerateRequest, counts: list[int]) -> Generation:
    """Segment `v` is sampled by version v; a count of 0 is a cut before the first token."""
    so_far = None
    for version, count in enumerate(counts):
        call = remaining(request, so_far, version)
        count = call.sampling.max_tokens if version == len(counts) - 1 else count
        if count:
            so_far = joined(so_far, sample(call, count, version))
    assert so_far is not None
    return so_far


@given(st.lists(st.integers(0, 4), max_size=3), st.integers(0, 4))
def test_a_cut_call_has_every_id_and_row_once_from_the_weights_that_sampled_it(
    cuts: list[int], routes_from: int
) -> None:
    request = ask(routes_from=routes_from)
    whole = through(request, [*cuts, 0])
    versions = np.repeat(np.arange(len(cuts) + 1), [*cuts, LENGTH - sum(cuts)])
    n = len(request.context_ids)
    assert whole.ids.tolist() == list(range(n, n + LENGTH))
    assert whole.finish_reason == "length"
    assert whole.policy_version == versions[0]
    assert (-whole.logprobs).tolist() == versions.tolist()
    assert token_versions(whole.versions, whole.policy_version, LENGTH).tolist() == versions.tolist()
    assert whole.routes is not None
    assert whole.routes[:, 0, 0].tolist() == list(range(routes_from, n + LENGTH - 1))
    # row t routed the position before the token it produced: that token's weights computed it
    assert whole.routes[n - 1 - routes_from :, 0, 1].tolist() == versions.tolist()
    assert set(whole.routes[: n - 1 - routes_from, 0, 1]) <= {versions[0]}


def test_what_is_left_after_a_cut_draws_other_random_numbers_under_another_name() -> None:
    first = ask()
    second = remaining(first, sample(first, 4, 0), 1)
    third = remaining(first, sample(first, 4, 0), 2)
    assert len({call.sampling.seed for call in (first, second, third)}) == 3
    assert len({call.request_id for call in (first, second, third)}) == 3
    assert second.sampling.max_tokens == LENGTH - 4
    assert remaining(first, None, 0) is first
