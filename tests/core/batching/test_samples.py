"""What is trained, what is not, and that nothing is lost in between."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_core.batching.samples import make_batch
from lego_core.types import RolloutGroup
from lego_harness.errors import AlignmentError, GraderError
from lego_harness.types import Branch, Grade, StopReason, Trajectory, Turn

TITLE = "side_call:title"


def trajectory(
    rollout_id, *, reward=None, stop=StopReason.COMPLETED, turns=(3, 2), split=False, lose=0, titles=()
):
    """Turns of the given sampled lengths behind two context tokens each, in one branch or one a turn.

    Those whose index is in `titles` are masked as such.
    """
    ids, mask, made = [], [], []
    for index, sampled in enumerate(turns):
        is_title = index in titles
        ids += [1, 2]
        mask += [False, False]
        made.append(turn(index, ids, sampled, masked=TITLE if is_title else ""))
        ids += [9] * sampled
        mask += [not is_title] * sampled
    mask = np.array(mask, bool)
    owned = [mask]
    if split and turns:
        starts = np.cumsum([0, *[2 + n for n in turns]])
        owned = [
            mask & (np.arange(len(ids)) >= a) & (np.arange(len(ids)) < b)
            for a, b in itertools.pairwise(starts)
        ]
    owned[0][np.flatnonzero(owned[0])[:lose]] = False
    return Trajectory(
        id=rollout_id,
        task_id="t",
        epoch=0,
        harness="h",
        sandbox="s",
        stop_reason=stop,
        error="",
        grade=None if reward is None else Grade(reward=reward, tests={}, duration_s=0),
        turns=tuple(made),
        branches=tuple(branch(ids, m) for m in owned),
        messages=(),
        patch="",
    )


def turn(index, context, sampled, masked=""):
    return Turn(
        index=index,
        context_ids=np.array(context, np.int32),
        sampled_ids=np.full(sampled, 9, np.int32),
        logprobs=np.full(sampled, -1, np.float32),
        routes_from=0,
        routes=None,
        policy_version=0,
        finish_reason="stop",
        fingerprint="",
        started_s=0,
        ended_s=0,
        masked=masked,
    )


def branch(ids, mask):
    return Branch(
        ids=np.array(ids, np.int32),
        mask=mask,
        logprobs=np.where(mask, -1, 0).astype(np.float32),
        versions=np.where(mask, 0, -1).astype(np.int32),
        routes=None,
    )


def group(*trajectories):
    return RolloutGroup(id="g", task_id="t", trajectories=trajectories)


def test_failures_and_timeouts_leave_the_batch_and_the_baseline_by_name():
    batch = make_batch(
        [
            group(
                trajectory("a", reward=1.0),
                trajectory("b", reward=0.0),
                trajectory("c", stop=StopReason.TIMEOUT),
                trajectory("d", stop=StopReason.FAILED_GRADER),
            )
        ],
        advantage_std=False,
    )
    assert [(s.rollout_id, s.advantage) for s in batch.samples] == [("a", 0.5), ("b", -0.5)]
    assert batch.dropped == {"ungraded:timeout": 1, "ungraded:failed_grader": 1}
    assert batch.masked == {"ungraded:timeout": 5, "ungraded:failed_grader": 5}
    assert (batch.sampled, batch.trained) == (20, 10)


def test_a_timeout_that_somehow_carries_a_grade_is_still_not_learned_from():
    batch = make_batch(
        [group(trajectory("a", reward=1.0, stop=StopReason.TIMEOUT), trajectory("b", reward=0.0))],
        advantage_std=True,
    )
    assert batch.samples == ()
    assert batch.dropped == {"ungraded:timeout": 1, "zero_variance": 1}


def test_truncation_is_trained_with_its_graded_reward():
    batch = make_batch(
        [group(trajectory("a", reward=0.0, stop=StopReason.TRUNCATED_TURNS), trajectory("b", reward=1.0))],
        advantage_std=False,
    )
    assert {s.rollout_id for s in batch.samples} == {"a", "b"}


def test_groups_without_variance_are_dropped_and_counted():
    batch = make_batch(
        [
            group(trajectory("a", reward=1.0), trajectory("b", reward=1.0)),
            group(trajectory("c", reward=0.0), trajectory("d", reward=1.0)),
            group(trajectory("e", stop=StopReason.FAILED_SETUP)),
        ],
        advantage_std=True,
    )
    assert batch.zero_variance_groups == 1
    assert batch.dropped == {"zero_variance": 2, "ungraded:failed_setup": 1}
    assert {s.rollout_id for s in batch.samples} == {"c", "d"}


def test_a_graded_rollout_that_sampled_nothing_stays_in_the_baseline_only():
    batch = make_batch(
        [group(trajectory("a", reward=0.0, turns=()), trajectory("b", reward=1.0))], advantage_std=False
    )
    assert [(s.rollout_id, s.advantage) for s in batch.samples] == [("b", 0.5)]
    assert batch.dropped == {"no_tokens": 1}
    assert batch.masked == {}


def test_branches_share_one_rollout_and_one_advantage():
    batch = make_batch(
        [group(trajectory("a", reward=1.0, split=True), trajectory("b", reward=0.0))], advantage_std=False
    )
    assert [(s.rollout_id, s.advantage) for s in batch.samples] == [("a", 0.5), ("a", 0.5), ("b", -0.5)]
    assert batch.trained == 10


def test_a_sampled_token_that_no_branch_owns_is_an_error_with_the_rollout_named():
    groups = [group(trajectory("s1.g0.r3", reward=1.0, lose=1), trajectory("b", reward=0.0))]
    with pytest.raises(AlignmentError, match=r"s1\.g0\.r3 sampled 5 tokens but its branches own 4"):
        make_batch(groups, advantage_std=True)


def test_masked_turns_leave_the_batch_under_their_reason_and_their_rollout_stays():
    batch = make_batch(
        [group(trajectory("a", reward=1.0, turns=(4, 3, 2), titles={1}), trajectory("b", reward=0.0))],
        advantage_std=False,
    )
    assert [(s.rollout_id, s.advantage, s.mask.sum()) for s in batch.samples] == [
        ("a", 0.5, 6),
        ("b", -0.5, 5),
    ]
    assert (batch.masked, batch.dropped) == ({TITLE: 3}, {})
    assert (batch.sampled, batch.trained) == (14, 11)


def test_a_rollout_of_masked_turns_only_is_dropped_and_stays_in_the_baseline():
    batch = make_batch(
        [group(trajectory("a", reward=1.0, titles={0, 1}), trajectory("b", reward=0.0))], advantage_std=False
    )
    assert [(s.rollout_id, s.advantage) for s in batch.samples] == [("b", -0.5)]
    assert (batch.masked, batch.dropped) == ({TITLE: 5}, {"no_tokens": 1})


def test_a_masked_token_that_is_owned_all_the_same_is_an_error():
    owned = trajectory("a", reward=1.0)
    masked = replace(owned, turns=(replace(owned.turns[0], masked=TITLE), *owned.turns[1:]))
    with pytest.raises(AlignmentError, match="its branches own 5 and its turns mask 3"):
        make_batch([group(masked, trajectory("b", reward=0.0))], advantage_std=True)


@pytest.mark.parametrize("reward", [math.nan, math.inf, 1.5, -0.1])
def test_a_reward_that_is_none_is_refused_with_its_rollout_named(reward):
    groups = [group(trajectory("s1.g0.r3", reward=reward), trajectory("b", reward=0.0))]
    with pytest.raises(GraderError, match=rf"s1\.g0\.r3 was graded {reward}, expected a reward in \[0, 1\]"):
        make_batch(groups, advantage_std=True)


ROLLOUTS = st.builds(
    lambda stop, reward, turns, split, titles: {
        "stop": stop,
        "reward": reward,
        "turns": turns,
        "split": split,
        "titles": titles,
    },
    st.sampled_from(list(StopReason)),
    st.sampled_from([None, 0.0, 0.5, 1.0]),
    st.lists(st.integers(1, 4), max_size=3),
    st.booleans(),
    st.sets(st.integers(0, 2)),
)


@given(st.lists(st.lists(ROLLOUTS, max_size=6), max_size=4), st.booleans())
def test_tokens_and_rollouts_are_conserved(groups, std):
    made = [
        group(*[trajectory(f"g{g}.r{r}", **kw) for r, kw in enumerate(rollouts)])
        for g, rollouts in enumerate(groups)
    ]
    batch = make_batch(made, advantage_std=std)
    assert batch.sampled == sum(t.num_sampled for g in made for t in g.trajectories)
    assert batch.sampled == batch.trained + sum(batch.masked.values())
    trained = {s.rollout_id for s in batch.samples}
    assert len(trained) + sum(batch.dropped.values()) == sum(len(g.trajectories) for g in made)
