"""One run, as an operator sees it.

Owns what can be said about it from its index, its mailbox and its lock. Invariant: nothing here writes to a run;
whatever is wrong with it is a Refusal that quotes none of its text.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from lego_control.failures import Refusal
from lego_core.changes import changed
from lego_core.store import RunLayout, RunReader, RunStatus
from lego_core.store.index import RunIndex
from lego_core.store.lock import is_locked
from lego_core.store.mailbox import ACKNOWLEDGED, TO_TRAINER, Request, requests
from lego_harness.errors import InfrastructureError, UsageError

T = TypeVar("T")
MAX_STEPS = 2**31
OUTCOMES = ("stopping", "paused", "running")
"""What a trainer answers (`boundary.py`)."""
SKEW_S = 5.0
"""Seconds by which the clocks of the asker and of the trainer may differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """A request to the trainer and what became of it."""

    request: Request
    outcome: str
    """`requested` until the trainer answers; `expired` if its process ended before that, even if the run was
    resumed: no process obeys what was asked of another."""
    step: int | None


class Run:
    """One run with its index."""

    def __init__(self, root: Path) -> None:
        self.name = root.name
        self.layout = RunLayout(root=root)
        self.reader = RunReader(root)
        self.index = RunIndex(root)
        self._recipe: dict[str, Any] | None = None
        self._known: dict[str, tuple[Any, Any]] = {}
        self.memory: dict[str, Any] = {}
        """What readers of the run remember of it."""

    def check(self) -> None:
        """Raise Refusal if it cannot be read; details are not passed on, because they may quote the run."""
        try:
            if self._recipe is None or not self.layout.info.exists():  # it is written once
                self._recipe = self.reader.info().recipe
        except UsageError as error:
            is_there = self.layout.info.exists()
            code = "other_version" if is_there else "unknown_run"
            told = "was written by another version" if is_there else "is not there, or not yet whole"
            raise Refusal(
                code, f"run {self.name} {told}", "runs_list (lego runs) names the runs that can be read"
            ) from error
        except InfrastructureError as error:
            raise Refusal(
                "unreadable_run",
                f"run.json of {self.name} cannot be read",
                f"on the run's machine, lego show {self.name} says what is wrong with it",
            ) from error

    def recipe(self) -> dict[str, Any]:
        """The recipe that holds, as it was stored; events must be fresh."""
        self.check()
        assert self._recipe is not None
        return changed(self._recipe, (fields for _, fields in self.events("started")))

    def once_per_step(self, what: str, find: Callable[[], T]) -> T:
        """The result of `find`, remembered until the run records something about a step or an evaluation."""
        mark = self.index.rows(
            "SELECT offset, tail FROM source WHERE name IN ('steps', 'heldout') ORDER BY name"
        )
        if what not in self._known or self._known[what][0] != mark:
            self._known[what] = mark, find()
        return self._known[what][1]

    def num_steps(self) -> int:
        """Steps the recipe asks for; 0 if it does not say, or says something impossible."""
        train: Any = self.recipe().get("train")
        steps: Any = cast(dict[str, Any], train).get("steps") if isinstance(train, dict) else None
        return steps if type(steps) is int and 0 <= steps < MAX_STEPS else 0

    def is_running(self) -> bool:
        """Whether a trainer writes it now."""
        return is_locked(self.layout.lock)

    def state(self) -> str:
        """running, paused, stopping, finished, failed or interrupted; events must be fresh."""
        if self.is_running():
            answered = self.events(ACKNOWLEDGED, "started")
            outcome = str(answered[-1][1].get("outcome", "running")) if answered else "running"
            return outcome if outcome in ("paused", "stopping") else "running"
        kinds = ("started", *(status.value for status in RunStatus if status is not RunStatus.RUNNING))
        last = self.index.rows(
            f"SELECT kind FROM event WHERE kind IN ({', '.join('?' * len(kinds))}) ORDER BY seq DESC LIMIT 1",
            kinds,
        )
        return str(last[0][0]) if last and last[0][0] != "started" else "interrupted"

    def events(self, *kinds: str) -> list[tuple[float, dict[str, Any]]]:
        """Time and fields of the events of these kinds, in order."""
        marks = ", ".join("?" * len(kinds))
        found = self.index.rows(f"SELECT time, fields FROM event WHERE kind IN ({marks}) ORDER BY seq", kinds)
        return [(when, json.loads(fields)) for when, fields in found]

    def asked(self) -> list[Asking]:
        """What was asked of the trainer, oldest first."""
        answers = {str(fields.get("request")): fields for _, fields in self.events(ACKNOWLEDGED)}
        started = self.events("started")
        since = math.inf if not self.is_running() else started[-1][0] - SKEW_S if started else -math.inf
        return [
            _asking(request, answers, "requested" if _when(request) >= since else "expired")
            for request in self.requests()
            if request.asked in TO_TRAINER
        ]

    def requests(self) -> tuple[Request, ...]:
        """The audit log."""
        return requests(self.layout.root)

    def stale_s(self) -> float:
        """Seconds since the run last wrote a step or an event."""
        times = [path.stat().st_mtime for path in (self.layout.steps, self.layout.events) if path.exists()]
        return round(max(time.time() - max(times, default=time.time()), 0.0), 1)


def _when(request: Request) -> float:
    """Unix seconds by the clock of the one who asked; infinite if it says none."""
    try:
        return datetime.fromisoformat(request.time).timestamp()
    except (ValueError, OverflowError, OSError):
        return math.inf


def _outcome(told: Any) -> str:
    return told if told in OUTCOMES else "unknown"


def _asking(request: Request, answers: dict[str, dict[str, Any]], waiting: str) -> Asking:
    answer = answers.get(request.id, {})
    step = answer.get("step")
    return Asking(
        request=request,
        outcome=_outcome(answer["outcome"]) if "outcome" in answer else waiting,
        step=step if isinstance(step, int) else None,
    )
