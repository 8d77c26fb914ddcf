"""How an example run develops: what the policy does and what the machinery does to it, by step.

Owns the stories and nothing else. A story maps the finished share of the run, 0 to 1, to a `Scene`.
The four bad ones are what trainers meet: each failure can be seen from the run directory alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """What one step is like."""

    skill: float = 0.5
    """Probability that a rollout of a task of middling difficulty solves it."""
    turns: float = 7.0
    """Mean engine calls of a rollout."""
    words: float = 14.0
    """Mean words of thinking per turn."""
    malformed: float = 0.01
    """Share of turns whose tool call cannot be parsed."""
    gibberish: bool = False
    cheat: float = 0.0
    """Share of rollouts that go for the grader instead of the task."""
    setup_failures: float = 0.0
    """Share of rollouts whose sandbox does not start; twice as likely if the image is large."""
    timeouts: float = 0.0
    truncated: float = 0.03
    """Share of rollouts that write on until their tokens are used up."""
    entropy: float = 0.4
    kl: float = 0.005
    grad_norm: float = 0.3
    pearson_r: float = 0.9993
    mean_abs_dlogp: float = 7e-4
    k3: float = 6e-7
    expert_overlap: float = 0.996
    top1_agreement: float = 0.985
    routing_coverage: float = 1.0
    heldout: float = 0.4


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """One example run."""

    name: str
    says: str
    """What the story plants, in one line; printed by the command, never written into the run."""
    scene: Callable[[float], Scene]
    harness: str = "mini-swe-agent"
    seed: int = 0
    ends: str = "finished"
    reason: str = ""
    """With `{graded}` and `{rollouts}` of its last step."""
    events: tuple[tuple[float, str, dict[str, str]], ...] = field(default=())
    """(share of the run, kind, fields) of events besides the usual ones."""


def between(x: float, begin: float, end: float) -> float:
    """0 before `begin`, 1 after `end`, smooth in between."""
    t = min(max((x - begin) / (end - begin), 0.0), 1.0)
    return t * t * (3 - 2 * t)


def _healthy(x: float) -> Scene:
    up = 1 - math.exp(-3 * x)
    return Scene(
        skill=0.35 + 0.5 * up,
        turns=6 + 2 * up,
        malformed=0.011 - 0.009 * up,
        entropy=0.45 - 0.25 * up,
        kl=0.001 + 0.01 * x,
        timeouts=0.01,
        heldout=0.38 + 0.36 * up,
    )


def _environment_failure(x: float) -> Scene:
    late = between(x, 0.45, 0.8)
    return replace(
        _healthy(0.6 * x),
        setup_failures=0.01 + 0.33 * late,
        timeouts=0.01 + 0.12 * late,
        heldout=0.38 + 0.2 * x,
    )


def _collapse(x: float) -> Scene:
    late = between(x, 0.4, 0.75)
    base = _healthy(0.5 * x)
    return replace(
        base,
        skill=base.skill * (1 - late) + 0.02 * late,
        turns=base.turns * (1 - late) + 1.2 * late,
        words=14 + 90 * late,
        malformed=0.01 + 0.99 * late,  # six steps without one readable call break an invariant
        gibberish=late > 0.5,
        truncated=0.03 + 0.6 * late,
        entropy=0.13 + 1.6 * late,
        kl=0.0046 + 0.13 * late,
        grad_norm=0.31 + 4 * late * (1 - late) * 2.2 - 0.27 * late,
        pearson_r=0.9993 - 0.03 * late,
        mean_abs_dlogp=7e-4 + 0.02 * late,
        k3=6e-7 + 2e-3 * late,
        heldout=0.45 * (1 - late) + 0.02,
    )


def _reward_hack(x: float) -> Scene:
    late = between(x, 0.35, 0.65)
    base = _healthy(0.4 * x)
    return replace(
        base,
        cheat=0.01 + 0.85 * late,
        turns=base.turns - 2.5 * late,
        entropy=base.entropy * (1 - 0.6 * late),
        heldout=0.45 - 0.16 * late,
    )


def _misaligned_routes(x: float) -> Scene:
    after = 1.0 if x >= 0.42 else 0.0
    drift = between(x, 0.42, 1.0)
    base = _healthy(min(x, 0.42))
    return replace(
        base,
        skill=base.skill - 0.3 * drift,
        pearson_r=0.9993 - 0.249 * after,
        mean_abs_dlogp=7e-4 + 0.31 * after,
        k3=6e-7 + 0.09 * after,
        expert_overlap=0.996 - 0.913 * after,
        top1_agreement=0.985 - 0.959 * after,
        grad_norm=0.3 + 0.9 * after,
        entropy=base.entropy + 0.2 * drift,
        heldout=0.55 - 0.25 * drift,
    )


STORIES = (
    Story(name="healthy", says="learns; nothing is wrong", scene=_healthy, harness="claude-code"),
    Story(
        name="environment-failure",
        says="sandboxes stop starting halfway: the reward is that of whatever survives",
        scene=_environment_failure,
        seed=1,
        ends="failed",
        reason="only {graded} of {rollouts} rollouts were graded, expected most; first failure (failed_setup): "
        "sandbox: writing the image layer failed: no space left on device",
    ),
    Story(name="collapse", says="the policy falls apart into long gibberish", scene=_collapse, seed=2),
    Story(name="reward-hack", says="the policy learns to satisfy the grader", scene=_reward_hack, seed=3),
    Story(
        name="misaligned-routes",
        says="after an engine restart the replayed experts belong to other tokens",
        scene=_misaligned_routes,
        seed=4,
        events=((0.4, "engine_restarted", {"reason": "did not answer for 120 s"}),),
    ),
)
