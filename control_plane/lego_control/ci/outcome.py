"""The outcome of named checks and the exit code that follows from it.

Exit codes of every command a pipeline calls: 0 passed, 1 a gate failed, 2 usage, 3 infrastructure or
inconclusive, 4 collapsed or stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any


class Exit(IntEnum):
    """Exit codes."""

    PASSED = 0
    FAILED = 1
    USAGE = 2
    INCONCLUSIVE = 3
    COLLAPSED = 4


class Status(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    WAIVED = "waived"
    """Failed, but the recipe allows that, by name and with a reason."""
    SKIPPED = "skipped"
    """Does not apply to this recipe."""
    ERROR = "error"
    """Could not be carried out: says nothing about what it checks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One check."""

    name: str
    status: Status
    seconds: float
    evidence: str
    """What was seen, in one line of ours."""
    remedy: str = ""
    """What to do about it; empty if nothing has to be done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """All checks of one command."""

    title: str
    outcomes: tuple[Outcome, ...]
    properties: dict[str, str]
    """Seed, commit, versions: what somebody needs to repeat it."""
    is_collapsed: bool = False

    @property
    def exit_code(self) -> Exit:
        statuses = {outcome.status for outcome in self.outcomes}
        if self.is_collapsed:
            return Exit.COLLAPSED
        if Status.FAILED in statuses:
            return Exit.FAILED
        return Exit.INCONCLUSIVE if Status.ERROR in statuses else Exit.PASSED


def as_json(report: Report) -> dict[str, Any]:
    """As plain values: `checks` with the records' fields, `exit_code`, `properties`."""
    from lego_core.store.json_records import to_json

    return {
        "title": report.title,
        "exit_code": int(report.exit_code),
        "passed": report.exit_code is Exit.PASSED,
        "checks": [to_json(outcome) for outcome in report.outcomes],
        "properties": report.properties,
    }


def count(outcomes: Sequence[Outcome], status: Status) -> int:
    """Outcomes of one status."""
    return sum(outcome.status is status for outcome in outcomes)
