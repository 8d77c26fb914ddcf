"""The behaviours of the paper's Table 9, of a rollout and of many.

Exact definitions stand at the fields. Everything is read from what the agent called and what came back; nothing is
asked of a model. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from lego_tui.behaviours.acts import Call, calls_of
from lego_tui.behaviours.tools import ENDS_BY_ANSWER


@dataclass(frozen=True, kw_only=True, slots=True)
class Behaviour:
    """What one rollout did."""

    num_calls: int
    """Tool calls, malformed ones and replies that should have been one included."""
    num_malformed: int
    num_failed: int
    """Calls that ran and came back with an error: a failed test run is one, too."""
    reads_back: bool
    """A file that it edited is read, by name or by a pattern that matches it, in a later command. A diff is no
    reading."""
    runs_tests: bool
    """A test runner is called, anywhere."""
    files_explored: int
    """Different files read by name before the first edit; before the end where there is none. Listings and searches
    name no file."""
    finishes: bool
    """It ends by the harness's own way to say so: the finish tool, the submit command, or an answer without a call
    where that is the way, and the rollout was not cut off."""
    reproduces: bool
    """Before its first edit it runs the tests or a program of its own (an interpreter or a script), and there is an
    edit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table9:
    """Shares in [0, 1] over `n` rollouts; None where nothing was counted."""

    n: int
    reads_back: float | None
    runs_tests: float | None
    files_explored: float | None
    """Mean."""
    finishes: float | None
    reproduces: float | None
    solves_despite_failure: float | None
    """Solved, of the graded rollouts with a failed command."""
    malformed: float | None
    """Malformed calls, of all calls."""


_MAX_PATHS, _MAX_EDITED = 20, 200
"""Files of one command, and edited files, that are compared: a policy may name thousands."""
ROWS = (
    ("reads_back", "reads back a file it edited"),
    ("runs_tests", "runs the test suite"),
    ("files_explored", "files explored before the first edit"),
    ("finishes", "ends with an explicit finish"),
    ("reproduces", "reproduces before editing"),
    ("solves_despite_failure", "solves despite a failed command"),
    ("malformed", "malformed tool calls, of all calls"),
)
"""Field → words, in the paper's order."""


def behaviour_of(messages: Sequence[Mapping[str, Any]], *, harness: str, is_completed: bool) -> Behaviour:
    """The behaviours of a rollout."""
    calls = calls_of(messages, harness)
    acts = [act for call in calls for act in call.acts]
    first_edit = next((i for i, act in enumerate(acts) if act.kind == "edit"), None)
    before = acts[:first_edit]
    return Behaviour(
        num_calls=len(calls),
        num_malformed=sum(call.is_malformed for call in calls),
        num_failed=sum(call.is_failed for call in calls),
        reads_back=_reads_back(calls),
        runs_tests=any(act.kind == "test" for act in acts),
        files_explored=len({_plain(path) for act in before if act.kind == "read" for path in act.paths}),
        finishes=_finishes(messages, calls, harness, is_completed),
        reproduces=first_edit is not None and any(act.kind in ("test", "execute") for act in before),
    )


def table9(rollouts: Iterable[tuple[Behaviour, bool | None]]) -> Table9:
    """Of rollouts and whether each solved its task; None without a grade."""
    every = list(rollouts)
    some = [behaviour for behaviour, _ in every]
    despite = [solved for behaviour, solved in every if solved is not None and behaviour.num_failed]
    calls = sum(b.num_calls for b in some)
    return Table9(
        n=len(some),
        reads_back=_mean([b.reads_back for b in some]),
        runs_tests=_mean([b.runs_tests for b in some]),
        files_explored=_mean([b.files_explored for b in some]),
        finishes=_mean([b.finishes for b in some]),
        reproduces=_mean([b.reproduces for b in some]),
        solves_despite_failure=_mean(despite),
        malformed=sum(b.num_malformed for b in some) / calls if calls else None,
    )


def pass_rates(groups: Iterable[Sequence[bool]]) -> tuple[float | None, float | None]:
    """(pass@k, pass^k) over groups of k graded siblings: any solved, all solved."""
    every = [group for group in groups if group]
    return _mean([any(g) for g in every]), _mean([all(g) for g in every])


def _reads_back(calls: Sequence[Call]) -> bool:
    edited: dict[str, None] = {}
    for call in calls:
        for act in call.acts:
            if act.kind not in ("read", "edit"):
                continue
            paths = [_plain(path) for path in act.paths[:_MAX_PATHS]]
            if act.kind == "read" and any(_is_same(r, e) for r in paths for e in list(edited)[-_MAX_EDITED:]):
                return True
            if act.kind == "edit":
                edited |= dict.fromkeys(paths)
    return False


def _is_same(a: str, b: str) -> bool:
    """True for two plain spellings of a file: relative or absolute, or a pattern and what it matches."""
    short, long = sorted((a, b), key=len)
    return a == b or long.endswith("/" + short) or fnmatchcase(a, b) or fnmatchcase(b, a)


def _plain(path: str) -> str:
    return str(PurePosixPath(path.strip().strip("'\"")))


def _finishes(
    messages: Sequence[Mapping[str, Any]], calls: Sequence[Call], harness: str, is_completed: bool
) -> bool:
    if not is_completed:
        return False
    if calls and any(act.kind == "finish" for act in calls[-1].acts):
        return True
    last = next((m for m in reversed(messages) if m.get("role") == "assistant"), None)
    return harness in ENDS_BY_ANSWER and last is not None and not last.get("tool_calls")


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
