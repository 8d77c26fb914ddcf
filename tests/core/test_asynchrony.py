"""What overlaps, what waits and what is never lost, with the real controller in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_core.rollouts.windows import Windows
from lego_core.simulation import virtual_time
from lego_core.simulation.schedule import Outcome, Schedule, simulate
from lego_core.together import task_group
from lego_harness.errors import EngineError
from lego_harness.rollout import RolloutSpec

GROUPS, SIZE = 4, 4


def long_tailed(spec: RolloutSpec) -> float:
    """Most rollouts take seconds, some minutes, and a prompt says nothing about it."""
    return random.Random(spec.id).paretovariate(1.2)


def run(max_staleness: int, *, slots: int = 1000, steps: int = 20, train_s: float = 3.0) -> Outcome:
    return simulate(
        Schedule(
            max_staleness=max_staleness,
            slots=slots,
            groups_per_step=GROUPS,
            group_size=SIZE,
            steps=steps,
            duration_s=long_tailed,
            train_s=train_s,
            publish_s=0.5,
        )
    )


def lags(outcome: Outcome) -> Counter[int]:
    """Versions behind the trainer → tokens."""
    total: Counter[int] = Counter()
    for record in outcome.steps:
        total.update({int(behind): count for behind, count in record.lag.items()})
    return total


def test_synchronous_is_asynchronous_with_staleness_0() -> None:
    assert set(lags(run(0))) == {0}


@settings(max_examples=25, deadline=None)
@given(
    max_staleness=st.integers(0, 4),
    slots=st.sampled_from([1, 3, 16, 1000]),
    train_s=st.sampled_from([0.0, 0.3, 30.0]),
)
def test_no_token_is_staler_than_the_bound_however_long_it_waited(
    max_staleness: int, slots: int, train_s: float
) -> None:
    seen = lags(run(max_staleness, slots=slots, steps=6, train_s=train_s))
    assert 0 <= min(seen) <= max(seen) <= max_staleness


def test_the_bound_is_used() -> None:
    """A pipeline that never let a rollout run ahead would pass every other test here."""
    assert max(lags(run(2))) == 2


@pytest.mark.parametrize("max_staleness", [0, 1, 4])
def test_how_long_a_rollout_takes_never_decides_whether_it_is_learned_from(max_staleness: int) -> None:
    """PrimeIntellect-ai/prime-rl#2960: dropping what is stale drops exactly the long ones."""
    outcome = run(max_staleness, slots=24)
    taken = {name: kept.seconds for name, kept in outcome.rollouts.items() if kept.step is not None}
    assert len(taken) == 20 * GROUPS * SIZE
    assert sum(record.rollouts for record in outcome.steps) == len(taken)
    assert all(record.sampled == record.trained + sum(record.masked.values()) for record in outcome.steps)
    assert not any(record.dropped.keys() - {"zero_variance"} for record in outcome.steps)
    trained = Counter(outcome.trained)
    assert set(trained.values()) == {1}
    by_length = sorted(taken, key=lambda rollout: taken[rollout])
    quarter = len(by_length) // 4
    shares = [
        sum(rollout in trained for rollout in by_length[i : i + quarter]) / quarter
        for i in range(0, 4 * quarter, quarter)
    ]
    without_variance = sum(record.dropped.get("zero_variance", 0) for record in outcome.steps)
    expected = 1 - without_variance / len(taken)
    assert all(abs(share - expected) < 0.15 for share in shares), shares


def test_steps_train_the_same_rollouts_whatever_the_staleness() -> None:
    """Order is the source's: a long rollout is not put off until the policy has moved on."""
    batches = [[record.trained_rollouts for record in run(s).steps] for s in (0, 1, 4)]
    assert batches[0] == batches[1] == batches[2]


def test_rollouts_go_on_while_the_trainer_works() -> None:
    """With rollouts of 10 s and steps of 10 s, the trainer of an asynchronous run is never idle."""

    def outcome(max_staleness: int) -> Outcome:
        return simulate(
            Schedule(
                max_staleness=max_staleness,
                slots=1000,
                groups_per_step=2,
                group_size=4,
                steps=10,
                duration_s=lambda spec: 10.0,
                train_s=10.0,
            )
        )

    synchronous, asynchronous = outcome(0), outcome(1)
    assert synchronous.total_s == pytest.approx(10 + 10 * 20 + 10)  # an evaluation at each end
    assert asynchronous.total_s == pytest.approx(10 + 10 + 10 * 10 + 10)
    assert [record.trainer_idle for record in synchronous.steps] == pytest.approx([0.5] * 10)
    assert [record.engine_idle for record in synchronous.steps] == pytest.approx([0.5] * 10)
    assert [record.trainer_idle for record in asynchronous.steps] == pytest.approx([0.5] + [0.0] * 9)
    # both of the first windows are whole when training begins, and nothing follows the last
    idle = [record.engine_idle for record in asynchronous.steps]
    assert idle == pytest.approx([0.5] + [0.0] * 8 + [1.0], abs=1e-9)


async def test_a_failure_in_a_window_nobody_waits_for_yet_ends_the_loop_at_once() -> None:
    waiting = asyncio.Event()

    async def collect(step: int) -> int:
        if step == 2:
            raise EngineError("gone")
        await waiting.wait()
        return step

    async def loop() -> None:
        async with task_group() as group:
            windows = Windows(group, collect, first=1, last=2)
            windows.admit(2)
            await windows.take(1)

    with pytest.raises(EngineError, match="gone"):
        await loop()


def test_virtual_time_passes_in_no_time_and_names_a_standstill() -> None:
    async def hour() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert virtual_time.run(hour()) == pytest.approx(3600)
    with pytest.raises(RuntimeError, match="cannot happen any more"):
        virtual_time.run(asyncio.Event().wait())
