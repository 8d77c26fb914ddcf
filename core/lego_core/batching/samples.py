"""From the groups of a step to the samples of a batch, with every token accounted for.

Owns who is trained: rollouts without a grade leave batch and baseline by stop reason, groups
without variance leave the batch, everything else becomes samples. Invariant (law 2): sampled =
trained + Σ masked, checked here for each batch.

| reason                   | what it means                                                       |
| ------------------------ | ------------------------------------------------------------------- |
| `ungraded:<stop reason>` | no reward exists: timeout, failure, cancellation                    |
| `zero_variance`          | all graded siblings earned the same, or there is only one           |
| `no_tokens`              | graded, but no token of it is trained (it counts in the baseline)   |
| `side_call:<class>`      | a call beside the conversation that is not trained, such as a title |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lego_core.batching.advantages import group_advantages
from lego_core.types import RolloutGroup, Sample
from lego_harness.errors import AlignmentError, GraderError
from lego_harness.types import Branch, Trajectory


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """The samples of one optimizer step, and an account of what is not among them."""

    samples: tuple[Sample, ...]
    sampled: int
    """Tokens sampled by every rollout of the step."""
    trained: int
    masked: dict[str, int]
    """Reason → tokens."""
    dropped: dict[str, int]
    """Reason → rollouts."""
    zero_variance_groups: int


def make_batch(groups: Sequence[RolloutGroup], *, advantage_std: bool) -> Batch:
    """Samples of all groups; raises AlignmentError when tokens were lost on the way here, and GraderError for an
    invalid reward."""
    samples: list[Sample] = []
    masked: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    zero_variance = 0
    for group in groups:
        graded = [t for t in group.trajectories if is_graded(t)]
        advantages = group_advantages([_reward(t) for t in graded], divide_by_std=advantage_std)
        zero_variance += bool(graded) and not advantages.any()
        by_id = dict(zip((t.id for t in graded), advantages, strict=True))
        for trajectory in group.trajectories:
            if reason := drop_reason(trajectory, by_id, learns=bool(advantages.any())):
                dropped[reason] += 1
                masked[reason] += trajectory.num_sampled
                continue
            made = _samples(trajectory, float(by_id[trajectory.id]))
            dropped["no_tokens"] += not made
            samples += made
            masked.update(_masked_turns(trajectory))
    batch = Batch(
        samples=tuple(samples),
        sampled=sum(t.num_sampled for g in groups for t in g.trajectories),
        trained=sum(int(s.mask.sum()) for s in samples),
        masked={reason: count for reason, count in masked.items() if count},
        dropped={reason: count for reason, count in dropped.items() if count},
        zero_variance_groups=zero_variance,
    )
    check_conservation(batch)
    return batch


def is_graded(trajectory: Trajectory) -> bool:
    """True if the rollout's reward may be learned from and compared with others (law 5)."""
    return trajectory.stop_reason.is_graded and trajectory.grade is not None


def drop_reason(trajectory: Trajectory, graded: dict[str, float], *, learns: bool) -> str:
    """Why nothing can be learned from a rollout; empty when something can."""
    if trajectory.id not in graded:
        return f"ungraded:{trajectory.stop_reason.value}"
    return "" if learns else "zero_variance"


def check_conservation(batch: Batch) -> None:
    """Raise AlignmentError unless sampled = trained + Σ masked."""
    masked = sum(batch.masked.values())
    if batch.sampled != batch.trained + masked:
        raise AlignmentError(
            f"token conservation: {batch.sampled} tokens were sampled, {batch.trained} are trained and {masked} "
            f"masked ({batch.masked}), expected the last two to add up to the first"
        )


def _reward(trajectory: Trajectory) -> float:
    assert trajectory.grade is not None
    reward = trajectory.grade.reward
    if not 0 <= reward <= 1:  # NaN included
        raise GraderError(f"rollout {trajectory.id} was graded {reward}, expected a reward in [0, 1]")
    return reward


def _masked_turns(trajectory: Trajectory) -> Counter[str]:
    """Reason → tokens of turns that are not trained although their rollout is."""
    masked: Counter[str] = Counter()
    for turn in trajectory.turns:
        if turn.masked:
            masked[turn.masked] += len(turn.sampled_ids)
    return masked


def _samples(trajectory: Trajectory, advantage: float) -> list[Sample]:
    owned = sum(int(branch.mask.sum()) for branch in trajectory.branches)
    masked = _masked_turns(trajectory).total()
    if owned + masked != trajectory.num_sampled:
        raise AlignmentError(
            f"rollout {trajectory.id} sampled {trajectory.num_sampled} tokens but its branches own {owned} and "
            f"its turns mask {masked}, expected each in exactly one branch or masked"
        )
    return [_sample(trajectory.id, branch, advantage) for branch in trajectory.branches if branch.mask.any()]


def _sample(rollout_id: str, branch: Branch, advantage: float) -> Sample:
    return Sample(
        rollout_id=rollout_id,
        ids=branch.ids,
        mask=branch.mask,
        rollout_logprobs=branch.logprobs,
        advantage=advantage,
        routes=branch.routes,
        versions=branch.versions,
    )
