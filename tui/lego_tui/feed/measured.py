"""A followed run as the detectors of `lego_core.health` see it, and what they say: the one opinion on a run.

Owns the conversion of leniently read lines to their series; judges nothing itself. Invariant: nothing raises, whatever
the files contain.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lego_core.config import WatchdogPolicy
from lego_core.health.findings import Diagnosis
from lego_core.health.flat import step_record
from lego_core.health.of_run import diagnose_now
from lego_core.health.policy import effective_policy, parse_policy
from lego_core.health.series import COLUMNS, Evaluation, Happened, Series, from_rows, resumed_steps, row_of
from lego_core.store.rewind import num_kept
from lego_harness.errors import UsageError
from lego_tui.feed.steps import Columns


class Measured:
    """What each step measured, a few hundred bytes of it."""

    def __init__(self) -> None:
        self._steps: list[int] = []
        self._numbers = array("d")

    def add(self, step: int, flat: Mapping[str, float]) -> None:
        """Take a step; a resumed run goes on after what it did not throw away."""
        n = num_kept(self._steps, step)
        self._steps[n:] = [step]
        self._numbers[n * len(COLUMNS) :] = array("d", row_of(step_record(step, flat)))

    def series(self, events: Sequence[Happened], heldout: Columns) -> Series:
        """Everything so far, in order of the steps."""
        rows = np.array(self._numbers).reshape(len(self._steps), len(COLUMNS))
        return from_rows(self._steps, rows, resumed_steps(events), _evaluations(heldout))


def diagnosis_of(
    measured: Measured, events: Sequence[Happened], heldout: Columns, run_dir: Path, recipe: Mapping[str, Any]
) -> Diagnosis:
    """What `lego diagnose` says of this run now."""
    with np.errstate(all="ignore"):  # files may hold numbers of any size
        policy = effective_policy(run_dir, _registered(recipe))
        return diagnose_now(measured.series(events, heldout), policy, events)


def _registered(recipe: Mapping[str, Any]) -> WatchdogPolicy:
    """The recipe's policy, or the default if this release cannot read it."""
    try:
        return parse_policy(recipe.get("watchdog", {}), source="run.json")
    except UsageError:
        return WatchdogPolicy()


def _evaluations(heldout: Columns) -> list[Evaluation]:
    rates, tasks, graded = (heldout.series(name) for name in ("solve_rate", "rates.tasks", "n"))
    counts = np.nan_to_num(np.where(np.isnan(tasks), graded, tasks), posinf=0, neginf=0)
    found = zip(heldout.steps, rates, counts, strict=True)
    return sorted(
        (Evaluation(step=step, solve_rate=float(rate), n=int(n)) for step, rate, n in found),
        key=lambda evaluation: evaluation.step,
    )
