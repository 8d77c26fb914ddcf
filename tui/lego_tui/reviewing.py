"""What a person should look at: rollouts with a reason each (the paper's fifth stage).

    whole steps ─▶ opened ─▶ findings, siblings that disagree, odd lengths ─▶ queue

Owns which rollouts are opened for it and the queue's rules. Pure, except for `Reading`, which the caller fills.
`lego_core.store.labels` keeps what people say about rollouts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lego_core.health.rolling import MAD_TO_SD
from lego_core.store.labels import Label
from lego_tui.audit import Finding
from lego_tui.feed.details import Reading
from lego_tui.feed.index import Entry
from lego_tui.feed.run import RunFeed
from lego_tui.safe import one_line

MOST = 1200
"""Rollouts that are opened for a queue, and one step more."""
OUTLIER = 5.0
"""A length is odd if its logarithm is at least this many robust standard deviations away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """A rollout that was opened."""

    entry: Entry
    findings: tuple[Finding, ...]
    change: str
    """Digest of the patch; empty without one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One rollout to look at."""

    rollout: str
    task: str
    reward: float | None
    reasons: tuple[str, ...]
    label: str = ""
    """The newest label; empty while nobody has looked."""


def to_open(run: RunFeed, step: int | None) -> list[Entry]:
    """Rollouts of every step, or of each second, fourth, eighth … and of `step` where all would be more than MOST.

    Whole steps, since siblings can only be told apart together; powers of two, so that a run that grows keeps
    what was opened. Evaluations are left out, and what a resumed run has thrown away.
    """
    steps, index = run.steps.steps, run.index
    count, stride = sum(index.num_of_step(s) for s in steps), 1
    while count > MOST * stride and stride < len(steps):
        stride *= 2
    chosen = [*steps[::stride], *([step] if step in steps and steps.index(step) % stride else [])]
    return [entry for s in chosen for entry in index.of_step(s)]


def looked(reading: Reading, entries: Sequence[Entry]) -> list[Looked]:
    """Those of `entries` that were opened and could be read."""
    known = ((entry, reading.known(entry.id)) for entry in entries)
    return [
        Looked(entry=entry, findings=details.findings, change=details.change)
        for entry, details in known
        if details is not None and not details.complaint
    ]


def queue(some: Sequence[Looked], labels: Mapping[str, Label]) -> list[Item]:
    """Rollouts with a reason, most reasons first; those that are labelled last."""
    odd_lengths, disagreeing = _odd_lengths(some), _disagreeing(some)
    found: list[Item] = []
    for one in some:
        if reasons := tuple(_reasons(one, odd_lengths, disagreeing)):
            entry, said = one.entry, labels.get(one.entry.id)
            item = Item(
                rollout=entry.id, task=entry.task, reward=None if math.isnan(entry.reward) else entry.reward,
                reasons=reasons, label=said.label if said else "",
            )  # fmt: skip
            found.append(item)
    return sorted(found, key=lambda item: (bool(item.label), -len(item.reasons), item.rollout))


def _reasons(one: Looked, odd_lengths: set[str], disagreeing: set[str]) -> Iterator[str]:
    for finding in one.findings:
        if finding.is_recorded or one.entry.reward >= 1:
            yield one_line(f"{finding.what}: {finding.evidence}", 160)
    if one.entry.id in disagreeing:
        yield "the same change as a sibling's, another reward"
    if one.entry.id in odd_lengths:
        yield f"odd length: {one.entry.sampled:,} tokens"


def _odd_lengths(some: Sequence[Looked]) -> set[str]:
    known = [(one.entry.id, math.log(one.entry.sampled)) for one in some if one.entry.sampled > 0]
    if len(known) < 20:
        return set()
    logs = np.array([value for _, value in known])
    middle = float(np.median(logs))
    spread = max(MAD_TO_SD * float(np.median(np.abs(logs - middle))), 0.1)
    return {name for name, value in known if abs(value - middle) > OUTLIER * spread}


def _disagreeing(some: Sequence[Looked]) -> set[str]:
    by_change: dict[tuple[int, str, str], list[Entry]] = {}
    for one in some:
        if not math.isnan(one.entry.reward) and one.change:
            by_change.setdefault((one.entry.step, one.entry.group, one.change), []).append(one.entry)
    return {
        e.id for siblings in by_change.values() if len({e.reward for e in siblings}) > 1 for e in siblings
    }
