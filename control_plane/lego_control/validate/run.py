"""Runs a plan of checks: timed, one after another, within a budget; waivers by name.

Invariant: every check of the plan has an outcome, whatever the others did. A check that the budget did not reach is
an error, not a pass.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from lego_control.ci.outcome import Outcome, Status
from lego_control.validate.base import PROFILES, Broken, Check, Ground, Skip
from lego_harness.errors import LegoError
from lego_harness.text import one_line

MAX_EVIDENCE = 500


async def run_checks(
    plan: Sequence[Check],
    ground: Ground,
    *,
    budget_s: float,
    waive: Mapping[str, str],
    told: Callable[[Outcome], None] = lambda outcome: None,
) -> tuple[Outcome, ...]:
    """One outcome per check, in the plan's order; each is passed to `told` as soon as it is known."""
    ends = time.monotonic() + budget_s
    outcomes: dict[str, Outcome] = {}
    for check in plan:
        outcome = await _outcome(check, ground, outcomes, ends - time.monotonic())
        outcomes[check.name] = _waived(outcome, waive)
        told(outcomes[check.name])
    return tuple(outcomes.values())


async def _outcome(check: Check, ground: Ground, before: Mapping[str, Outcome], left_s: float) -> Outcome:
    if PROFILES.index(check.profile) > PROFILES.index(ground.profile):
        return _made(check, Status.SKIPPED, f"part of profile {check.profile}")
    if missing := [name for name in check.needs if name in before and not _stands(before[name])]:
        return _made(check, Status.SKIPPED, f"needs {', '.join(missing)}, which did not pass")
    if left_s <= 0:
        return _made(
            check, Status.ERROR, "not tried: the budget was spent", "raise --budget, or a smaller profile"
        )
    started = time.monotonic()
    status, evidence, remedy = await _tried(check, ground, left_s)
    return _made(check, status, evidence, remedy, time.monotonic() - started)


async def _tried(check: Check, ground: Ground, left_s: float) -> tuple[Status, str, str]:
    try:
        async with asyncio.timeout(left_s):
            return Status.PASSED, await _evidence(check, ground), ""
    except Broken as broken:
        return Status.FAILED, broken.evidence, broken.remedy
    except Skip as reason:
        return Status.SKIPPED, str(reason), ""
    except TimeoutError:
        return Status.ERROR, "the budget ended while it ran", "raise --budget, or a smaller profile"
    except (LegoError, OSError) as error:
        return Status.ERROR, f"could not be carried out: {error}", "repair what it names, then validate again"
    except Exception as error:  # noqa: BLE001  a fault of one check must not hide the others
        return Status.ERROR, f"{type(error).__name__}: {error}", "a fault of the check itself: report it"


async def _evidence(check: Check, ground: Ground) -> str:
    found = await asyncio.to_thread(check.run, ground)  # a coroutine is only made there, not run
    return found if isinstance(found, str) else await found


def _made(check: Check, status: Status, evidence: str, remedy: str = "", seconds: float = 0.0) -> Outcome:
    return Outcome(
        name=check.name,
        status=status,
        seconds=seconds,
        evidence=one_line(evidence, limit=MAX_EVIDENCE),
        remedy=remedy,
    )


def _waived(outcome: Outcome, waive: Mapping[str, str]) -> Outcome:
    if outcome.name not in waive or outcome.status not in (Status.FAILED, Status.ERROR):
        return outcome
    return Outcome(
        name=outcome.name,
        status=Status.WAIVED,
        seconds=outcome.seconds,
        evidence=f"{outcome.evidence} (waived: {one_line(waive[outcome.name])})",
        remedy=outcome.remedy,
    )


def _stands(outcome: Outcome) -> bool:
    """A waived check counts as passed for those that depend on it, because somebody wants to go on."""
    return outcome.status in (Status.PASSED, Status.WAIVED)
