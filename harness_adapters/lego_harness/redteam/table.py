"""Table 6 for this machine: for each failure mode, how often it pays without defences and with them.

Owns the rows and what defends each; counts come from attempts. Invariant: a row says how many cheats
it is made of, so that 0 of 1 does not read like 0 of 40.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lego_harness.redteam.cheat import MODES
from lego_harness.redteam.run import Attempt, Result

DEFENCES: Mapping[str, str] = {
    "history": "one sealed commit; the history never enters a sandbox",
    "download": "no network in any phase",
    "tests": "hidden tests come last, test-side edits are reverted",
    "loaded": "fresh sandbox, pristine interpreter, deny-list on the exported files",
    "memory": "must-fail canaries, self-check, contradicted tests",
    "report": "closed runner, late nonces, contradicted tests judged outside",
    "answers": "contradicted tests, audit of the patch",
    "ending": "protocol instead of exit codes; what the agent ends is reward 0",
    "escape": "regular files only, read-only tests, nothing survives",
    "reference": "proof before use: untouched 0, reference 1; quarantine while training",
    "network": "tasks are proven without a network",
    "build": "a set-up that fails is reported, never reward 0",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One failure mode."""

    mode: str
    num_cheats: int
    num_undefended: int | None
    """How many cheats paid, or broken tasks were misjudged, without defences; None if that was not tried."""
    num_probed: int
    """Of how many that were."""
    defence: str
    num_through: int
    num_flagged: int


def table(attempts: Sequence[Attempt], fooled: Mapping[tuple[str, str], bool]) -> list[Row]:
    """A row per mode that was tried; `fooled` is by (cheat, task)."""
    return [
        _row(mode, chosen, fooled)
        for mode in MODES
        if mode != "none" and (chosen := [attempt for attempt in attempts if attempt.mode == mode])
    ]


def _row(mode: str, attempts: Sequence[Attempt], fooled: Mapping[tuple[str, str], bool]) -> Row:
    without = [fooled[key] for a in attempts if (key := (a.cheat, a.task)) in fooled]
    return Row(
        mode=MODES[mode],
        num_cheats=len(attempts),
        num_undefended=sum(without) if without else None,
        num_probed=len(without),
        defence=DEFENCES[mode],
        num_through=_count(attempts, Result.GOT_THROUGH),
        num_flagged=_count(attempts, Result.FLAGGED),
    )


def _count(attempts: Iterable[Attempt], result: Result) -> int:
    return sum(attempt.result is result for attempt in attempts)
