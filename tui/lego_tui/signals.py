"""What looks wrong in a run, in a sentence with its evidence and where to look next.

Owns plain readings for a person: each compares the last steps with the run's own best or with what the
paper reports. They stop nothing and decide nothing (law 9); the health policy of a run does that. Pure:
functions of columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from lego_tui.feed.run import RunFeed
from lego_tui.feed.steps import Columns, Series
from lego_tui.safe import one_line

_RECENT = 5
"""Steps that stand for now; medians over them."""
LEVELS = ("ok", "watch", "bad")


@dataclass(frozen=True, kw_only=True, slots=True)
class Signal:
    """One thing to know."""

    level: str
    """One of LEVELS."""
    what: str
    """A sentence: what, from what to what."""
    metric: str
    """Series that shows it."""
    since: int | None
    """Step where it began; None when it always was."""
    means: str
    """What it usually means."""
    look: str
    """What to look at next, with the key."""


def signals(run: RunFeed) -> list[Signal]:
    """Everything worth saying, worst first."""
    return run.remember("signals", lambda: _found(run)) if len(run.steps) else []


def _found(run: RunFeed) -> list[Signal]:
    found = [signal for rule in _RULES for signal in rule(run.steps, run.heldout)]
    return sorted(found, key=lambda signal: -LEVELS.index(signal.level))


def verdict(run: RunFeed) -> str:
    """The worst level."""
    return max((signal.level for signal in signals(run)), key=LEVELS.index, default="ok")


def just_before(run: RunFeed, step: int, window: int = 2) -> list[str]:
    """Events of the few steps before a signal began, stages and checkpoints left out."""
    found: list[str] = []
    for event in run.events:
        at = event.fields.get("step")
        if isinstance(at, int) and step - window <= at <= step and event.kind not in ("stage", "checkpoint"):
            reason = event.fields.get("reason", "")
            found.append(
                one_line(
                    f"{event.kind} at step {at}: {reason}" if reason else f"{event.kind} at step {at}", 200
                )
            )
    return found[-5:]


def _now(values: Series, recent: int = _RECENT) -> float:
    part = values[-recent:]
    part = part[np.isfinite(part)]
    return float(np.median(part)) if len(part) else math.nan


def _best(values: Series) -> float:
    """The greatest median of consecutive steps: a peak that one lucky step does not make."""
    finite = values[np.isfinite(values)]
    if len(finite) < _RECENT:
        return float(finite.max()) if len(finite) else math.nan
    windows = np.lib.stride_tricks.sliding_window_view(finite, _RECENT)
    return float(np.median(windows, axis=1).max())


def _first(values: Series) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite[:_RECENT])) if len(finite) else math.nan


def _since(steps: Columns, wrong: np.ndarray) -> int | None:
    """First step of the stretch of wrong steps that reaches the end; single good steps do not break it."""
    begin, good = None, 0
    for row in range(len(wrong) - 1, -1, -1):
        if wrong[row]:
            begin, good = row, 0
        else:
            good += 1
            if good > 1:
                break
    return None if begin is None else steps.steps[begin]


def _share(steps: Columns, prefixes: tuple[str, ...]) -> Series:
    """Share of a step's rollouts dropped for reasons with these beginnings."""
    total = np.zeros(len(steps))
    for name in steps.names:
        if name.startswith(prefixes):
            total += steps.series(name)
    rollouts = steps.series("rollouts")
    return np.divide(total, rollouts, out=np.full(len(total), np.nan), where=rollouts > 0)


def _environment(steps: Columns, heldout: Columns) -> Iterator[Signal]:
    kinds = (
        ("dropped.ungraded:failed_", "fail outside the policy", "sandbox, image, engine or grader broke"),
        ("dropped.ungraded:timeout", "run out of wall-clock time", "slow machines or an agent that hangs"),
    )
    for prefix, what, means in kinds:
        share = _share(steps, (prefix,))
        now = _now(share, 3)
        if now >= 0.05:
            yield Signal(
                level="bad" if now >= 0.2 else "watch",
                what=f"{now:.0%} of rollouts {what} (first steps {_first(share):.0%}): absent from batch and reward",
                metric="reward_mean",
                since=_since(steps, share >= max(0.05, now / 3)),
                means=f"{means}; the reward is that of the survivors and cannot be compared with earlier steps",
                look="6 Sandboxes: which boundary failed, and its message",
            )


def _reward(steps: Columns, heldout: Columns) -> Iterator[Signal]:
    reward = steps.series("reward_mean")
    now, best = _now(reward), _best(reward)
    if best > 0.05 and len(reward) >= 2 * _RECENT and now < 0.7 * best:
        yield Signal(
            level="bad" if now < 0.5 * best else "watch",
            what=f"reward fell from {best:.2f} at its best to {now:.2f}",
            metric="reward_mean",
            since=_since(steps, reward < 0.8 * best),
            means="the policy lost what it had learned, or it is trained on the wrong thing",
            look="the signals below: what moved first?",
        )


def _hack(steps: Columns, heldout: Columns) -> Iterator[Signal]:
    rate, reward = heldout.series("solve_rate"), steps.series("reward_mean")
    if len(rate) < 3 or len(reward) < 2 * _RECENT:
        return
    rises, falls = _now(reward) - _first(reward), float(np.nanmedian(rate[:3]) - np.nanmedian(rate[-2:]))
    if rises > 0.1 and falls > 0.03:
        yield Signal(
            level="bad" if rises > 0.2 and falls > 0.05 else "watch",
            what=f"training reward rose by {rises:.2f} while held-out fell from {np.nanmedian(rate[:3]):.2f} "
            f"to {np.nanmedian(rate[-2:]):.2f}",
            metric="heldout",
            since=_since(steps, reward > _first(reward) + 0.5 * rises),
            means="rewards are earned without doing the task: the policy found a way around the grader",
            look="3 Step, enter a solved group, read a rollout: its findings and its patch (d)",
        )


def _heldout(steps: Columns, heldout: Columns) -> Iterator[Signal]:
    rate = heldout.series("solve_rate")
    if len(rate) < 3:
        return
    best, now = float(np.nanmax(rate)), _now(rate, 2)
    if best > 0.05 and now < 0.7 * best:
        row = int(np.nanargmax(rate))
        below = np.flatnonzero(rate[row:] < 0.8 * best)
        at = heldout.steps[row]
        yield Signal(
            level="bad" if now < 0.5 * best else "watch",
            what=f"held-out solve rate fell from {best:.0%} at step {at} to {now:.0%}",
            metric="heldout",
            since=heldout.steps[row + int(below[0])] if len(below) else None,
            means="the policy got worse at tasks it does not train on",
            look="what moved at that step on 2 Run",
        )


def _routes(steps: Columns, heldout: Columns) -> Iterator[Signal]:
    overlap, top1 = steps.series("expert_overlap"), steps.series("top1_agreement")
    if _now(overlap, 3) < 0.9:
        yield Signal(
            level="bad" if _now(overlap, 3) < 0.6 else "watch",
            what=f"replayed experts agree with the router's own on {_now(overlap, 3):.0%} "
            f"(top-1 {_now(top1, 3):.0%}; aligned runs ≥ 98 %)",
            metric="expert_overlap",
            since=_since(steps, overlap < 0.9),
            means="recorded routes belong to other tokens or layers: gradients go to the wrong experts",
            look="5 Health: which event came just before; 4 Trajectory, t: coverage of the routes",
        )
    coverage = steps.series("routing_coverage")
    if _now(coverage, 3) < 0.99:
        yield Signal(
            level="watch",
            what=f"only {_now(coverage, 3):.1%} of positions had a route to replay",
            metric="routing_coverage",
            since=_since(steps, coverage < 0.99),
            means="prefix caching, preemption or a restart lost routes",
            look="4 Trajectory, t",
        )


def _agreement(steps: Columns, heldout: Columns) -> Iterator[Signal]:
    r = steps.series("pearson_r")
    now = _now(r, 3)
    if now < 0.99:
        yield Signal(
            level="bad" if now < 0.9 else "watch",
            what=f"trainer and engine disagree: Pearson r {now:.4f} (paper ≥ 0.998), "
            f"mean |Δlogp| {_now(steps.series('mean_abs_dlogp'), 3):.1e}",
            metric="pearson_r",
            since=_since(steps, r < 0.99),
            means="the gradient is of another policy than the one that sampled",
            look="expert_overlap and routing_coverage on this screen",
        )


def _policy(steps: Columns, heldout: Columns) -> Iterator[Signal]:
    entropy = steps.series("entropy")
    now, first = _now(entropy, 3), _first(entropy)
    if now > 3 * first and now > 0.5:
        yield Signal(
            level="bad",
            what=f"policy entropy rose from {first:.2f} to {now:.2f}",
            metric="entropy",
            since=_since(steps, entropy > 2 * first),
            means="the policy samples ever more at random: outputs turn into gibberish",
            look="3 Step, enter twice: read what it writes now",
        )
    elif now < 0.1 * first and now < 0.02:
        yield Signal(
            level="watch",
            what=f"policy entropy fell from {first:.2f} to {now:.3f}",
            metric="entropy",
            since=_since(steps, entropy < 0.2 * first),
            means="nearly deterministic: siblings agree and groups carry no signal",
            look="zero_variance_groups on this screen",
        )
    good, bad = steps.series("acted.calls"), steps.series("acted.malformed")
    share = np.divide(bad, good + bad, out=np.full(len(bad), np.nan), where=good + bad > 0)
    if _now(share, 3) > max(0.1, 3 * _first(share)):
        yield Signal(
            level="bad" if _now(share, 3) > 0.4 else "watch",
            what=f"{_now(share, 3):.0%} of tool calls are malformed (first steps {_first(share):.0%})",
            metric="malformed share",
            since=_since(steps, share > 0.1),
            means="the policy no longer writes calls that the harness can read",
            look="3 Step, enter twice: read a rollout",
        )
    kl = steps.series("kl_loss")
    if _now(kl, 3) > 10 * max(_first(kl), 1e-4) and _now(kl, 3) > 0.05:
        yield Signal(
            level="watch",
            what=f"KL to the reference rose from {_first(kl):.4f} to {_now(kl, 3):.3f}",
            metric="kl_loss",
            since=_since(steps, kl > 5 * max(_first(kl), 1e-4)),
            means="the policy has moved far from where it began",
            look="entropy and grad_norm on this screen",
        )


def _tokens(steps: Columns, heldout: Columns) -> Iterator[Signal]:
    zero, groups = steps.series("zero_variance_groups"), steps.series("groups")
    share = np.divide(zero, groups, out=np.full(len(zero), np.nan), where=groups > 0)
    if _now(share) >= 0.75:
        yield Signal(
            level="watch",
            what=f"{_now(share):.0%} of groups have no variance: nothing to learn from",
            metric="zero_variance_groups",
            since=_since(steps, share >= 0.75),
            means="tasks are all too easy or all too hard for this policy",
            look="7 Pool: which tasks still separate",
        )


def _finite(steps: Columns, heldout: Columns) -> Iterator[Signal]:
    for name, step in list(steps.odd.items()):
        yield Signal(
            level="bad",
            what=f"{name} was NaN or infinite at step {step}",
            metric=name,
            since=step,
            means="numbers overflowed: every step after it is suspect",
            look="grad_norm before that step",
        )


_RULES: tuple[Callable[[Columns, Columns], Iterator[Signal]], ...] = (
    _finite,
    _environment,
    _routes,
    _hack,
    _reward,
    _policy,
    _agreement,
    _heldout,
    _tokens,
)
