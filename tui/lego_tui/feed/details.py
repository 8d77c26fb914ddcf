"""What can only be known about a rollout by opening it, kept small and kept for a while.

Owns two bounded caches: whole rollouts for the screen that reads one, and a few numbers each for
the screens that list many. `read` may run in a thread of its own.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TypeVar

from lego_tui.actions import Action
from lego_tui.audit import Finding, audit
from lego_tui.feed.index import Entry
from lego_tui.feed.run import RunFeed
from lego_tui.feed.trajectory import Rollout

T = TypeVar("T")
_ROLLOUTS, _DETAILS = 16, 8192
LARGE = 16 * 2**20
"""A rollout with at least this many packed bytes is opened only when somebody asks for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Details:
    """A rollout in a line."""

    num_turns: int
    actions: tuple[Action, ...]
    findings: tuple[Finding, ...]
    error: str
    timings: dict[str, float]
    num_branches: int
    patch_lines: int
    change: str
    """Digest of the patch; empty without one."""
    tests_passed: int
    tests: int
    complaint: str

    @property
    def num_malformed(self) -> int:
        return sum(action.kind == "malformed" for action in self.actions)


class Reading:
    """Rollouts of one run that were opened."""

    def __init__(self, run: RunFeed) -> None:
        self._run = run
        self._rollouts: OrderedDict[str, Rollout] = OrderedDict()
        self._details: OrderedDict[str, Details] = OrderedDict()

    def known(self, trajectory_id: str) -> Details | None:
        """Details that were read before."""
        return self._details.get(trajectory_id)

    def open_now(self, trajectory_id: str) -> Rollout | None:
        """A whole rollout that was read before."""
        return self._rollouts.get(trajectory_id)

    def read(self, entry: Entry) -> Rollout:
        """Open a rollout, or return it if it is open already."""
        found = self._rollouts.get(entry.id)
        if found is None:
            found = self._run.load(entry)
            _put(self._rollouts, entry.id, found, _ROLLOUTS)
            _put(self._details, entry.id, _summary(found), _DETAILS)
        return found

    def missing(self, entries: list[Entry]) -> list[Entry]:
        """Rollouts whose details are not known and that are small enough to be opened without being asked for."""
        return [entry for entry in entries if entry.id not in self._details and entry.length < LARGE]

    def read_details(self, entries: list[Entry]) -> None:
        """Learn the details of many; the rollouts themselves are not kept."""
        for entry in entries:
            if entry.id not in self._details:
                _put(self._details, entry.id, _summary(self._run.load(entry)), _DETAILS)


def _summary(rollout: Rollout) -> Details:
    done = tuple(rollout.actions)
    return Details(
        num_turns=len(rollout.turns),
        actions=tuple(Action(kind=a.kind, tool=a.tool, command=a.command[:200]) for a in done),
        findings=tuple(audit(rollout, done)),
        error=rollout.error[:400],
        timings=rollout.timings,
        num_branches=len(rollout.branches),
        patch_lines=sum(
            line[:1] in "+-" and line[:3] not in ("+++", "---") for line in rollout.patch.splitlines() if line
        ),
        change=digest(rollout.patch),
        tests_passed=sum(verdict == "passed" for verdict in rollout.tests.values()),
        tests=len(rollout.tests),
        complaint=rollout.complaint,
    )


def digest(patch: str) -> str:
    """The same for the same change; empty where there is none."""
    return hashlib.sha256(patch.encode(errors="replace")).hexdigest() if patch.strip() else ""


def _put(memory: OrderedDict[str, T], key: str, value: T, limit: int) -> None:
    memory[key] = value
    while len(memory) > limit:
        memory.popitem(last=False)
