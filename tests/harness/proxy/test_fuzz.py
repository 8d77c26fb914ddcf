"""Thousands of broken requests, and hundreds of thousands: the proxy's laws hold whatever is sent."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.support.fuzz.harness import STEPS
from tests.support.fuzz.rounds import Seen, run_rounds

NUM_REQUESTS, PER_SEED = 200_000, 5_000


def did_everything(seen: Seen) -> bool:
    """Every kind of request was sent, and many were sampled for."""
    return all(seen.steps[kind.__name__] for kind, _ in STEPS) and seen.num_turns > 100


def test_the_laws_hold_whatever_is_sent() -> None:
    assert did_everything(run_rounds(seed=0, num_requests=2_000))


@pytest.mark.soak
def test_the_laws_hold_whatever_is_sent_for_long() -> None:
    seeds = range(1, NUM_REQUESTS // PER_SEED + 1)
    processes = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=os.cpu_count(), mp_context=processes) as pool:
        runs = list(pool.map(run_rounds, seeds, [PER_SEED] * len(seeds)))
    assert all(map(did_everything, runs))
