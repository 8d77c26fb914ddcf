"""What the rollouts of a step did, counted: turns, truncations, calls, repetition.

Pure function of trajectories. Counts cover all rollouts of the step, failed ones included; shares are
computed where they are shown. Holds only numbers, never text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from lego_core.types import Acted
from lego_harness.proxy.forms.base import CALL_OPEN
from lego_harness.types import FindingKind, Trajectory

CHEATS = frozenset({FindingKind.DEGENERATE_PATCH, FindingKind.FORGED_VERDICT})
MIN_TOKENS = 16
"""Of a shorter rollout nobody can say that one token dominates it."""


def count_acts(trajectories: Sequence[Trajectory]) -> Acted:
    """The counts of one step's rollouts."""
    said = [_calls(t) for t in trajectories]
    return Acted(
        turns=sum(len(t.turns) for t in trajectories),
        truncated=sum(t.stop_reason.is_truncated for t in trajectories),
        calls=sum(good for good, _ in said),
        malformed=sum(bad for _, bad in said),
        silent=sum(bool(t.turns) and not good for t, (good, _) in zip(trajectories, said, strict=True)),
        dominated=sum(is_dominated(t) for t in trajectories),
        stop_reasons=dict(Counter(t.stop_reason.value for t in trajectories)),
        unearned=sum(is_unearned(t) for t in trajectories),
    )


def is_dominated(trajectory: Trajectory) -> bool:
    """True when one token id makes up half of what a rollout sampled: endless "!", say."""
    if trajectory.num_sampled < MIN_TOKENS:
        return False
    ids = np.concatenate([turn.sampled_ids for turn in trajectory.turns])
    return 2 * int(np.unique(ids, return_counts=True)[1].max()) >= len(ids)


def is_unearned(trajectory: Trajectory) -> bool:
    """True for a reward that is in doubt: for no change at all, or for one that the integrity report calls a cheat."""
    if trajectory.grade is None or trajectory.grade.reward <= 0:
        return False
    return not trajectory.patch.strip() or any(finding.kind in CHEATS for finding in trajectory.integrity)


def _calls(trajectory: Trajectory) -> tuple[int, int]:
    """Tool calls that could be read, and replies with one that could not: it stays visible as text."""
    replies = [message for message in trajectory.messages if message.get("role") == "assistant"]
    good = sum(len(message.get("tool_calls") or ()) for message in replies)
    return good, sum(CALL_OPEN in str(message.get("content", "")) for message in replies)
