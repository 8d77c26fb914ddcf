"""The result of a replayed rollout, for programs and for the exit code.

Owns the counts. Invariant: a rollout is conserved only if every token that the engine handed out is in the
record, and is there either trained or masked for a named reason (law 2).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from lego_harness.proxy.capture import Capture
from lego_harness.types import Branch
from lego_harness.wire.replay import Replayed


def outcome(replayed: Replayed) -> dict[str, Any]:
    """The counts of one rollout, as JSON values."""
    capture = replayed.capture
    return {
        "turns": len(capture.turns),
        "branches": [_branch(branch) for branch in capture.branches],
        "sampled": sum(len(turn.sampled_ids) for turn in capture.turns),
        "trained": sum(int(branch.mask.sum()) for branch in capture.branches),
        "masked": _masked(capture),
        "side_calls": dict(Counter(turn.side_call for turn in capture.turns if turn.side_call)),
        "sub_agents": sum(branch.cause == "sub_agent" for branch in capture.branches),
        "forks": [
            {"turn": fork.turn, "message": fork.message, "cause": fork.cause, "detail": fork.detail}
            for fork in capture.forks
        ],
        "errors": _errors(replayed),
    }


def is_conserved(replayed: Replayed) -> bool:
    """Whether every token that was sampled is accounted for, and the rollout did not fail."""
    counts = outcome(replayed)
    kept = counts["trained"] + sum(counts["masked"].values())
    failed = replayed.capture.stop is not None and replayed.capture.stop.is_failure
    return replayed.num_sampled == counts["sampled"] == kept and not failed


def _branch(branch: Branch) -> dict[str, Any]:
    trained = int(branch.mask.sum())
    return {
        "cause": branch.cause,
        "at": branch.at,
        "tokens_context": len(branch.ids) - trained,
        "tokens_trained": trained,
    }


def _masked(capture: Capture) -> dict[str, int]:
    masked: Counter[str] = Counter()
    for turn in capture.turns:
        if turn.masked:
            masked[turn.masked] += len(turn.sampled_ids)
    return dict(masked)


def _errors(replayed: Replayed) -> list[dict[str, Any]]:
    """Answers of another kind than the recorded ones, and why the session ended, if it did so by itself."""
    errors: list[dict[str, Any]] = [
        {"n": one.n, "recorded": one.recorded, "got": one.got, "message": one.message}
        for one in replayed.surprises
    ]
    stop = replayed.capture.stop
    return errors + ([{"stop": stop.value, "message": replayed.capture.error}] if stop else [])
