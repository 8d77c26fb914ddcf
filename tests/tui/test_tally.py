"""Counting many rollouts fast gives what counting them one by one gives."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lego_core.store import RunWriter
from lego_tui.feed.tally import tally
from tests.support.runs import recipe, step, trajectory
from tests.support.watching import watched

REWARDS = st.sampled_from([0.0, 0.5, 1.0, 2.0, math.nan, math.inf])
ROLLOUTS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(-1, 3) | st.just(2**31 - 1), REWARDS), max_size=40
)


@given(ROLLOUTS)
def test_every_training_rollout_is_counted_once_where_it_belongs(
    rollouts: list[tuple[int, int, float]],
) -> None:
    what, steps, rewards = (np.array(part) for part in zip(*rollouts, strict=True)) if rollouts else (np.zeros(0, int),) * 3  # fmt: skip
    found = tally(what.astype(np.int64), steps.astype(np.int64), rewards.astype(float))
    pairs = list(zip(found.what.tolist(), found.step.tolist(), strict=True))
    trained = [(w, s, r) for w, s, r in rollouts if s >= 0]
    assert pairs == sorted({(w, s) for w, s, _ in trained})
    for counted, belongs in (
        (found.graded, math.isfinite),
        (found.solved, lambda r: math.isfinite(r) and r >= 1),
        (found.ungraded, lambda r: not math.isfinite(r)),
    ):
        expected = Counter((w, s) for w, s, r in trained if belongs(r))
        assert counted.tolist() == [expected[pair] for pair in pairs]


async def test_the_pool_of_a_live_run_grows_with_its_steps(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, recipe()) as writer:

        def take(number: int, task: str) -> None:
            writer.append_trajectory(trajectory(f"s{number:05d}.g00.r0", task_id=task), step=number)
            writer.append_step(step(number))

        take(1, "first")
        async with watched(writer.layout.root) as hand:
            await hand.press("7")
            assert [row.task for row in hand.app.page._rows] == ["first"]
            take(2, "second")
            while [row.task for row in hand.app.page._rows] != ["first", "second"]:
                await hand.pilot.pause(0.01)
