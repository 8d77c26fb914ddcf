"""One baseline per group of rollouts: whatever rows a rollout became, and whoever failed beside it."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_core.store import RunReader
from lego_core.types import RolloutGroup, Sample
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.render import Renderer
from lego_harness.types import Grade, StopReason, Trajectory
from tests.support import controller_program, runs
from tests.support.fan_out import WAYS, fan_out, replies
from tests.support.graded import NOTHING, batch, group, rollout
from tests.support.scripted_engine import ScriptedEngine

Serve = Callable[[ScriptedEngine], Awaitable[CaptureProxy]]
ABSENT = [stop for stop in StopReason if not stop.is_graded]


def graded(rollout_id: str, reward: float) -> Trajectory:
    return runs.trajectory(rollout_id, grade=Grade(reward=reward, tests={}, duration_s=0))


def failed(rollout_id: str, stop: StopReason) -> Trajectory:
    return runs.trajectory(rollout_id, stop_reason=stop, grade=None)


def group_of(name: str, rewards: list[float]) -> RolloutGroup:
    return group(*[graded(f"{name}.r{i}", reward) for i, reward in enumerate(rewards)])


def advantages(samples: tuple[Sample, ...]) -> list[float]:
    return [sample.advantage for sample in samples]


@pytest.mark.parametrize("way", WAYS)
async def test_a_rollout_of_three_rows_counts_once_in_the_baseline(
    way: str, serve: Serve, renderer: Renderer
) -> None:
    """THUDM/slime#2302: rows rewarded [1, 1, 1, 0] of two rollouts centre on 0.5, not on 0.75."""
    proxy = await serve(ScriptedEngine(renderer, [*replies(3), *replies(1)]))
    split, whole = await fan_out(proxy, "a", 3, way), await fan_out(proxy, "b", 1, way)
    assert [branch.cause for branch in split.branches] == ["start", way, way]
    made = batch(group(rollout("a", split, 1.0), rollout("b", whole, 0.0)))
    assert [(s.rollout_id, s.advantage) for s in made.samples] == [("a", 0.5)] * 3 + [("b", -0.5)]


def test_groups_of_uneven_size_are_each_centred_on_their_own_mean() -> None:
    """THUDM/slime#1414, #2230, #1918: sizes 4, 3 and 4 were normalised over the whole batch."""
    groups = [group_of("a", [1, 0, 0, 0]), group_of("b", [1, 1, 0]), group_of("c", [0, 1, 1, 1])]
    centred = [0.75, -0.25, -0.25, -0.25, 1 / 3, 1 / 3, -2 / 3, -0.75, 0.25, 0.25, 0.25]
    assert advantages(batch(*groups).samples) == pytest.approx(centred)
    # by the unbiased deviations 1/2, 1/√3 and 1/2
    divided = [1.5, -0.5, -0.5, -0.5, 0.57735, 0.57735, -1.1547, -1.5, 0.5, 0.5, 0.5]
    assert advantages(batch(*groups, std=True).samples) == pytest.approx(divided, rel=1e-5)


@given(
    rewards=st.lists(
        st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=5), min_size=1, max_size=4
    ),
    order=st.randoms(use_true_random=False),
)
def test_neither_other_groups_nor_the_order_of_siblings_move_an_advantage(
    rewards: list[list[float]], order: random.Random
) -> None:
    """THUDM/slime#1414: what a rollout is compared with is its own group and nothing else."""
    groups = [group_of(f"g{i}", of_group) for i, of_group in enumerate(rewards)]
    alone = {s.rollout_id: s.advantage for one in groups for s in batch(one, std=True).samples}
    shuffled = [
        replace(g, trajectories=tuple(order.sample(g.trajectories, len(g.trajectories)))) for g in groups
    ]
    order.shuffle(shuffled)
    together = {s.rollout_id: s.advantage for s in batch(*shuffled, std=True).samples}
    assert together == pytest.approx(alone, abs=1e-12)


@pytest.mark.parametrize("stop", ABSENT)
def test_a_failed_rollout_with_nothing_sampled_brings_neither_a_token_nor_a_zero(stop: StopReason) -> None:
    """awslabs/agentcore-rl-toolkit#122: the dummy token of a failed rollout entered the baseline."""
    lost = rollout("lost", NOTHING, None, stop)
    made = batch(group(graded("a", 1.0), lost, graded("b", 0.0)))
    assert [(s.rollout_id, s.advantage) for s in made.samples] == [("a", 0.5), ("b", -0.5)]
    assert made.dropped == {f"ungraded:{stop}": 1}
    assert made.masked == {}


def test_the_few_that_survive_a_bad_day_are_compared_among_themselves() -> None:
    """NVIDIA-NeMo/RL#4061, NVIDIA-NeMo/Gym#2552: 1172 of 1280 masked failures moved the baselines."""
    draw = random.Random(0)
    ids = [f"g{i // 8}.r{i % 8}" for i in range(1280)]
    survivors = {name: float(draw.random() < 0.5) for name in draw.sample(ids, 1280 - 1172)}
    of_group = [
        group(
            *[
                graded(i, survivors[i]) if i in survivors else failed(i, draw.choice(ABSENT))
                for i in ids[g : g + 8]
            ]
        )
        for g in range(0, 1280, 8)
    ]
    clean = [replace(g, trajectories=tuple(t for t in g.trajectories if t.grade)) for g in of_group]
    made, wanted = batch(*of_group, std=True), batch(*clean, std=True)
    assert [(s.rollout_id, s.advantage) for s in made.samples] == [
        (s.rollout_id, s.advantage) for s in wanted.samples
    ]
    assert len(made.samples) > 20
    assert sum(n for reason, n in made.dropped.items() if reason.startswith("ungraded:")) == 1172


async def test_the_reward_of_a_step_is_measured_before_groups_are_filtered(tmp_path: Path) -> None:
    """modal-projects/training-gym#432: measured behind the filter, a good run looked like a bad one."""
    await controller_program.run(tmp_path)
    (info,) = tmp_path.glob("*/run.json")
    reader = RunReader(info.parent)
    num_filtered = 0
    for record in reader.steps():
        stored = [reader.load(entry) for entry in reader.trajectory_index() if entry.step == record.step]
        rewards = [t.grade.reward for t in stored if t.grade]
        assert record.reward_mean == pytest.approx(sum(rewards) / len(rewards))
        assert record.rollouts == len(stored)
        num_filtered += record.dropped.get("zero_variance", 0)
    assert num_filtered, "a filter must have taken something away"
