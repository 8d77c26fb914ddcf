"""What may be behind the findings, and how to tell. A table, read top to bottom; no model is asked.

Each entry: the findings that speak for it (any of them), those without which it is not named, the sentence and
the next thing to look at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lego_core.health.findings import Finding, Hypothesis


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pattern:
    name: str
    needs: frozenset[str]
    """Metrics, or a metric and its detector (`heldout/apart`); each with a finding."""
    helps: frozenset[str]
    text: str
    next_check: str
    one_of: frozenset[str] = frozenset()
    """Where there are any, one of these too."""
    is_end: bool = False
    """How many runs end, whatever the cause: told behind the causes."""

    def fits(self, names: frozenset[str]) -> bool:
        return self.needs <= names and (not self.one_of or not self.one_of.isdisjoint(names))


def explain(findings: Iterable[Finding]) -> tuple[Hypothesis, ...]:
    """The hypotheses for which every needed metric has a finding (and one of those of which one is): causes before
    ends, best supported first."""
    found = [(f.metric, f.key) for f in findings]
    names = frozenset(name for names in found for name in names)
    fitting = [p for p in PATTERNS if p.fits(names)]
    fitting.sort(key=lambda p: (p.is_end, -len((p.needs | p.helps) & names)))
    return tuple(
        Hypothesis(
            name=p.name,
            text=p.text,
            evidence=tuple(key for metric, key in found if {metric, key} & (p.needs | p.helps)),
            next_check=p.next_check,
        )
        for p in fitting
    )


def _pattern(
    name: str, needs: str, helps: str, text: str, next_check: str, *, one_of: str = "", is_end: bool = False
) -> _Pattern:
    return _Pattern(
        name=name,
        needs=frozenset(needs.split()),
        helps=frozenset(helps.split()),
        text=text,
        next_check=next_check,
        one_of=frozenset(one_of.split()),
        is_end=is_end,
    )


PATTERNS = (
    _pattern(
        "reward_hacked",
        "heldout/apart",
        "entropy turns response_tokens zero_variance",
        "Rewards are earned without doing the task: the policy has found a way around the grader.",
        "Read solved rollouts of the step it began: their patches and their integrity findings.",
    ),
    _pattern(
        "generalisation_lost",
        "heldout/fallen",
        "",
        "The policy got worse at tasks it does not train on.",
        "Look at what else moved at that step; compare held-out rollouts before and after it.",
    ),
    _pattern(
        "environment_failure",
        "ungraded",
        "reward truncated",
        "Sandboxes, engine or grader fail: what is left in the batch is no fair sample.",
        "Look at the stop reasons by step and at the errors of ungraded rollouts; compare their lengths.",
    ),
    _pattern(
        "engine_and_trainer_disagree",
        "pearson_r",
        "k3 mean_abs_dlogp routing_coverage top1_agreement grad_norm",
        "The trainer does not compute what the engine sampled: stale weights, other precision or wrong routes.",
        "Validate the recipe (agreement, weight_sync); look at the routes and at the step it began.",
    ),
    _pattern(
        "misaligned_routes",
        "top1_agreement",
        "routing_coverage pearson_r",
        "Replayed experts belong to other positions or to other weights.",
        "Read a trajectory of the step it began with its routes; validate the recipe.",
    ),
    _pattern(
        "numbers_overflow",
        "loss",
        "grad_norm entropy kl_loss",
        "The loss is no number any more: the weights are lost from that step on.",
        "Go back to the checkpoint before it; lower the learning rate or the clip; look at the longest rollouts.",
    ),
    _pattern(
        "step_too_large",
        "grad_norm",
        "reward entropy kl_loss malformed dominated silent zero_variance truncated",
        "An update threw the policy away: the gradient jumped, then form and reward went.",
        "Compare the gradient norm with the step the reward fell at; lower the learning rate or the clip.",
    ),
    _pattern(
        "policy_destroyed",
        "reward",
        "malformed dominated silent zero_variance truncated entropy kl_loss turns response_tokens",
        "The policy lost what it could: hardly a rollout earns anything any more.",
        "Read three rollouts of the step it began and three before; go back to a checkpoint before it.",
        one_of="reward/robust_drop zero_variance/no_signal truncated/saturated malformed/saturated silent/saturated "
        "dominated",
        is_end=True,
    ),
    _pattern(
        "repetition",
        "dominated",
        "truncated response_tokens entropy reward",
        "One token repeats until the limit: the usual end of a diverged update.",
        "Read a rollout; go back to a checkpoint before it and lower the learning rate.",
    ),
    _pattern(
        "length_explosion",
        "truncated",
        "response_tokens turns reward",
        "Rollouts grow until a limit cuts them, and what is cut earns less.",
        "Compare rewards of cut and uncut rollouts; look at what the last turns do.",
    ),
    _pattern(
        "rollouts_grow",
        "",
        "response_tokens/grown turns/grown truncated",
        "Rollouts are far longer than at the beginning.",
        "Compare rewards of long and short rollouts of one task; look at how near they come to a limit.",
        one_of="response_tokens/grown turns/grown",
    ),
    _pattern(
        "form_lost",
        "malformed",
        "silent reward turns",
        "The policy unlearns the form of tool calls.",
        "Read malformed replies of the last step; raise kl_coef or lower the learning rate.",
    ),
    _pattern(
        "entropy_changed",
        "entropy",
        "reward zero_variance kl_loss",
        "Entropy has left its band: the policy has stopped exploring, or is dissolving.",
        "Do not trust entropy alone: compare rollouts of different tasks, they may have become one template.",
    ),
    _pattern(
        "nothing_left_to_learn",
        "zero_variance",
        "reward",
        "Groups are solved by everybody or by nobody.",
        "Look at the solve rates of the tasks: a pool that is too easy or too hard needs others.",
        is_end=True,
    ),
    _pattern(
        "slow_decay",
        "reward/falling",
        "entropy pearson_r kl_loss",
        "The reward goes down slowly.",
        "Compare with the held-out solve rate; look at agreement and staleness over the same steps.",
        is_end=True,
    ),
    _pattern(
        "lower_level",
        "reward/page_hinkley",
        "heldout/fallen entropy",
        "The reward moved to a lower level: other tasks than before, or a policy that got worse.",
        "Compare the tasks of the steps before and after it, and the held-out solve rate across it.",
        is_end=True,
    ),
)
