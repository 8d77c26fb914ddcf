"""What may be behind the findings, and how to tell. A table, read from top to bottom; no model is asked.

Each entry has the findings that support it (any of them), the findings it requires, the sentence, and the
next thing to look at.
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
    """If not empty, one of these is required too."""
    is_end: bool = False
    """How many runs end, whatever the cause; reported after the causes."""

    def fits(self, names: frozenset[str]) -> bool:
        return self.needs <= names and (not self.one_of or not self.one_of.isdisjoint(names))


def explain(findings: Iterable[Finding]) -> tuple[Hypothesis, ...]:
    """The hypotheses for which every needed metric has a finding (and one of those of which one is): causes before
    ends, best supported first."""
    found = [(f.metric, f.key) for f in findings]
    names = frozenset(name for names in found for name in names)
    fitting = [p for p in PATTERNS if p.fits(names)]
    fitting.sort(key=lambda p: (p.is_end, -len((p.needs | p.one_of | p.helps) & names)))
    return tuple(
        Hypothesis(
            name=p.name,
            text=p.text,
            evidence=tuple(key for metric, key in found if {metric, key} & (p.needs | p.one_of | p.helps)),
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
        "began_with_a_resume",
        "resume",
        "reward silent malformed truncated dominated zero_variance entropy kl_loss grad_norm clip_fraction pearson_r k3 "
        "mean_abs_dlogp routing_coverage top1_agreement expert_overlap response_tokens turns tokens_per_turn ungraded "
        "loss staleness unearned",
        "It began right behind a resume: what holds since then is not what held before it.",
        "Look at what the resume changed (`changed` of the event `started`, versions, tasks, machine); go back to its "
        "checkpoint and resume without that.",
    ),
    _pattern(
        "numbers_overflow",
        "",
        "grad_norm entropy kl_loss loss",
        "A number of the update is none any more: the weights are lost from that step on.",
        "Go back to the checkpoint before it; lower the learning rate or the clip; look at the longest rollouts.",
        one_of="loss/non_finite grad_norm/non_finite entropy/non_finite kl_loss/non_finite k3/non_finite "
        "mean_abs_dlogp/non_finite reward/non_finite",
    ),
    _pattern(
        "environment_failure",
        "ungraded",
        "reward truncated",
        "Sandboxes, engine or grader fail: what is left in the batch is no fair sample.",
        "Look at the stop reasons by step and at the errors of ungraded rollouts; compare their lengths.",
    ),
    _pattern(
        "reward_hacked",
        "",
        "entropy turns/shrunk response_tokens/shrunk zero_variance",
        "Rewards are earned without doing the task: the policy has found a way around the grader.",
        "Read solved rollouts of the step it began: their patches and their integrity findings.",
        one_of="heldout/apart unearned",
    ),
    _pattern(
        "misaligned_routes",
        "",
        "pearson_r k3 mean_abs_dlogp",
        "Replayed experts belong to other positions or to other weights.",
        "Read a trajectory of the step it began with its routes; validate the recipe.",
        one_of="top1_agreement expert_overlap routing_coverage",
    ),
    _pattern(
        "stale_rollouts",
        "staleness",
        "pearson_r k3 mean_abs_dlogp clip_fraction reward",
        "Rollouts are sampled by ever older weights.",
        "Compare agreement by lag (by_lag) and what the trainer waits for; lower rollout.max_staleness.",
    ),
    _pattern(
        "engine_and_trainer_disagree",
        "",
        "grad_norm entropy kl_loss reward",
        "The trainer does not compute what the engine sampled: stale weights, other precision or wrong routes.",
        "Validate the recipe (agreement, weight_sync); look at the routes and at the step it began.",
        one_of="pearson_r k3 mean_abs_dlogp",
    ),
    _pattern(
        "step_too_large",
        "",
        "reward entropy kl_loss malformed dominated silent zero_variance truncated",
        "An update threw the policy away: the gradient jumped, then form and reward went.",
        "Compare the gradient norm with the step the reward fell at; lower the learning rate or the clip.",
        one_of="grad_norm/spike grad_norm/grown clip_fraction",
    ),
    _pattern(
        "far_from_the_reference",
        "kl_loss",
        "grad_norm entropy reward",
        "The policy has gone far from where it began, faster than before.",
        "Compare rollouts of one task before and after it; raise kl_coef or lower the learning rate.",
    ),
    _pattern(
        "repetition",
        "dominated",
        "truncated response_tokens/grown entropy reward",
        "One token repeats until the limit: the usual end of a diverged update.",
        "Read a rollout; go back to a checkpoint before it and lower the learning rate.",
    ),
    _pattern(
        "length_explosion",
        "truncated",
        "response_tokens/grown turns/grown tokens_per_turn/grown reward",
        "Rollouts grow until a limit cuts them, and what is cut earns less.",
        "Compare rewards of cut and uncut rollouts; look at what the last turns do.",
    ),
    _pattern(
        "form_lost",
        "",
        "reward turns tokens_per_turn",
        "The policy unlearns the form of tool calls.",
        "Read malformed replies of the last step; raise kl_coef or lower the learning rate.",
        one_of="malformed silent",
    ),
    _pattern(
        "rollouts_grow",
        "",
        "truncated",
        "Rollouts are far longer than at the beginning.",
        "Compare rewards of long and short rollouts of one task; look at how near they come to a limit.",
        one_of="response_tokens/grown turns/grown",
    ),
    _pattern(
        "rollouts_shrink",
        "",
        "reward silent entropy tokens_per_turn/grown",
        "Rollouts are far shorter than at the beginning: the policy gives up early, or has found a short cut.",
        "Compare rewards of short and long rollouts of one task; read how short ones end.",
        one_of="response_tokens/shrunk turns/shrunk",
    ),
    _pattern(
        "longer_turns",
        "tokens_per_turn/grown",
        "truncated",
        "Each turn is far longer than at the beginning: more thinking, or text that leads nowhere.",
        "Read a long turn; compare rewards of rollouts with long and short ones; look at rollout.max_tokens_per_turn.",
    ),
    _pattern(
        "lost_at_once",
        "reward/cliff",
        "",
        "The policy was lost within a step or two: one update was too large, or the weights that sample are not those "
        "that were trained.",
        "Compare learning rate, gradient norm and kl_loss of the step before it; validate the recipe (weight_sync).",
        one_of="malformed silent dominated truncated entropy kl_loss turns response_tokens",
    ),
    _pattern(
        "entropy_changed",
        "entropy",
        "reward zero_variance kl_loss",
        "Entropy has left its band: the policy has stopped exploring, or is dissolving.",
        "Do not trust entropy alone: compare rollouts of different tasks, they may have become one template.",
    ),
    _pattern(
        "unstable_updates",
        "reward/swinging",
        "grad_norm clip_fraction kl_loss",
        "The reward swings more and more: updates are larger than what a step can tell.",
        "Lower the learning rate or take more rollouts a step; look at the gradient norm beside the reward.",
    ),
    _pattern(
        "nothing_earned",
        "reward/never",
        "zero_variance silent malformed truncated",
        "Hardly a rollout earns anything: the tasks are too hard for this policy, or harness, prompt or grader are broken.",
        "Validate the recipe (nop = 0, oracle = 1); read three rollouts; train on tasks that are solved sometimes.",
    ),
    _pattern(
        "does_not_learn",
        "reward/flat",
        "zero_variance",
        "The reward has not moved: updates are too small, or there is nothing in the tasks to learn from.",
        "Look at kl_loss and clip_fraction, near nothing means too small a learning rate; and at the solve rates of tasks.",
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
        "generalisation_lost",
        "heldout/fallen",
        "",
        "The policy got worse at tasks it does not train on.",
        "Look at what else moved at that step; compare held-out rollouts before and after it.",
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
