"""What a person should look at: rollouts with a reason each (the paper's fifth stage).

Owns the queue's rules. What people say of them is kept by `lego_core.store.labels`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lego_control.report.source import Opened, Source
from lego_core.store.labels import Label
from lego_tui.safe import one_line

OUTLIER = 5.0
"""Robust standard deviations of a logarithm from which on a length is odd."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One rollout to look at."""

    rollout: str
    task: str
    reward: float | None
    reasons: tuple[str, ...]
    label: str = ""
    """The newest label; empty while nobody has looked."""


def queue(source: Source, labels: Sequence[Label]) -> list[Item]:
    """Rollouts with a reason, most reasons first; those that are labelled last."""
    known = {label.rollout: label.label for label in labels}
    odd_lengths = _odd_lengths(source.opened)
    disagreeing = _disagreeing(source)
    found: list[Item] = []
    for opened in source.opened:
        reasons = tuple(_reasons(opened, odd_lengths, disagreeing))
        if reasons:
            reward = None if math.isnan(opened.entry.reward) else opened.entry.reward
            label = known.get(opened.entry.id, "")
            found.append(
                Item(
                    rollout=opened.entry.id,
                    task=opened.entry.task,
                    reward=reward,
                    reasons=reasons,
                    label=label,
                )
            )
    return sorted(found, key=lambda item: (bool(item.label), -len(item.reasons), item.rollout))


def _reasons(opened: Opened, odd_lengths: set[str], disagreeing: set[str]) -> Iterator[str]:
    for finding in opened.findings:
        if finding.is_recorded or opened.solved:
            yield one_line(f"{finding.what}: {finding.evidence}", 160)
    if opened.entry.id in disagreeing:
        yield "the same change as a sibling's, another reward"
    if opened.entry.id in odd_lengths:
        yield f"odd length: {opened.entry.sampled:,} tokens"


def _odd_lengths(some: Sequence[Opened]) -> set[str]:
    known = [(o.entry.id, math.log(o.entry.sampled)) for o in some if o.entry.sampled > 0]
    if len(known) < 20:
        return set()
    logs = np.array([value for _, value in known])
    middle = float(np.median(logs))
    spread = max(1.4826 * float(np.median(np.abs(logs - middle))), 0.1)
    return {name for name, value in known if abs(value - middle) > OUTLIER * spread}


def _disagreeing(source: Source) -> set[str]:
    by_change: dict[tuple[int, str, str], list[Opened]] = {}
    for opened in source.opened:
        if opened.solved is not None and opened.change:
            entry = opened.entry
            by_change.setdefault((entry.step, entry.group, opened.change), []).append(opened)
    return {
        o.entry.id for some in by_change.values() if len({o.entry.reward for o in some}) > 1 for o in some
    }
