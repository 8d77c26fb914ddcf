"""The behaviours of the paper's Table 9, of one rollout and of many.

Exact definitions are at the fields. Everything is read from the agent's calls and their results; no model is
asked. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from lego_tui.behaviours.acts import calls_of
from lego_tui.behaviours.conversations import order_of
from lego_tui.behaviours.substitutions import is_named_by_another
from lego_tui.behaviours.tools import ENDS_BY_ANSWER
from lego_tui.behaviours.vocabulary import Act


@dataclass(frozen=True, kw_only=True, slots=True)
class Behaviour:
    """What one rollout did, its sub-agents included, who act when they are sent.

    An edit changes, makes or removes a file, by a tool or by any command (a redirection, `sed -i`, a patch, a program
    that writes, `rm`, `git checkout FILE`). Scratch files (below /tmp), caches and build folders aside, and what a test
    run or a program prints into a file. A new file that is run before any other is edited is a program of its own, and
    making it no edit. A call with one command that failed read and edited nothing; a program that is not there did not
    run, and a file that is not there was neither read nor edited, though the error be hidden.
    """

    num_calls: int
    """Tool calls, malformed ones and replies that should have been one included; parallel calls are several."""
    num_malformed: int
    """Calls that came to nothing because of how they were written: broken JSON, a tool that there is not, arguments
    missing or of the wrong kind; replies whose text holds what should have been a call; and replies without a call
    that the harness answers by asking for one."""
    num_failed: int
    """Calls that ran and came back with an error: an exit code that is not 0 (a `grep` without a hit and a `diff` have
    one, too), or the tool's own error message. A failed test run is one. What a pipe or a later command hides is none;
    only where a harness tells no exit code (OpenCode) does an error that a command printed count."""
    reads_back: bool
    """A file that it edited is read, by name or by a pattern that matches it, in a later command, of the same line or
    of another call. Where another command names the files (`xargs`, `$(…)`, `-exec`), any may be among them. A reading
    shows the file as it is: a diff, a search, a copy, a check of its syntax, `git show REV:FILE` or what an editor shows
    of its own edit is none."""
    runs_tests: bool
    """A test runner runs, anywhere: pytest, unittest, tox, `make test`, a script named so (run_tests.sh), a test file or
    module by itself; `make` where its output is that of a runner. Whether the tests pass does not matter. A runner that
    is only asked something (`--version`, `--collect-only`, `make -n`), that finds nothing to start (`npm test` without a
    package.json) or is not reached (behind `&&` or `set -e`) runs none."""
    files_explored: int
    """Different files read by name (`cat`, `head`, `sed -n`, `perl -ne`, `git show REV:FILE`, `git blame`, a tool that
    reads) before the first edit; before the end where there is none. A pattern counts as one, and so do the files that
    another command names (`xargs cat`, `cat $(…)`). Listings and searches (`ls`, `find`, `grep`) name no file."""
    finishes: bool
    """It ends by the harness's own way to say so: the finish tool (OpenHands), the submit command (mini-swe-agent),
    or an answer without a call where that is the way (Claude Code, OpenCode, Codex), and the rollout was not cut
    off. A malformed reply is no such answer, and a sub-agent's end is none."""
    reproduces: bool
    """Before its first edit it runs the tests or a program of its own (an interpreter or a script, whatever it does, if
    it does more than show a file), and there is an edit."""


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
    ("reads_back", "reads back a file it edited", "reads a file after an edit of it; a diff is no reading"),
    ("runs_tests", "runs the test suite", "a test runner runs, whatever it says"),
    ("files_explored", "files explored before the first edit", "mean of the different files read by name"),
    ("finishes", "ends with an explicit finish", "by the harness's own way, not cut off"),
    ("reproduces", "reproduces before editing", "runs tests or a program of its own before the first edit"),
    (
        "solves_despite_failure",
        "solves despite a failed command",
        "of the graded rollouts with a failed call",
    ),
    ("malformed", "malformed tool calls, of all calls", "unreadable, of no tool, or without its arguments"),
)
"""Field, words and what is counted, in the paper's order."""


def behaviour_of(messages: Sequence[Mapping[str, Any]], *, harness: str, is_completed: bool) -> Behaviour:
    """The behaviours of a rollout."""
    calls = calls_of(messages, harness)
    acts = _without_own_programs([act for call in calls for act in call.acts])
    first_edit = next((i for i, act in enumerate(acts) if act.kind == "edit"), None)
    before = acts[:first_edit]
    return Behaviour(
        num_calls=len(calls),
        num_malformed=sum(call.is_malformed for call in calls),
        num_failed=sum(call.is_failed for call in calls),
        reads_back=_reads_back(acts),
        runs_tests=any(act.kind == "test" for act in acts),
        files_explored=_count_files(path for act in before if act.kind == "read" for path in act.paths),
        finishes=_finishes(messages, harness, is_completed),
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


def _without_own_programs(acts: Sequence[Act]) -> list[Act]:
    """The acts, those apart that make a new file which is run before any other is edited."""
    kept: list[Act] = []
    seen: set[str] = set()
    for place, act in enumerate(acts):
        names = _names(act)
        is_new = act.kind == "edit" and act.is_whole and names.isdisjoint(seen)
        if not (is_new and _is_run_next(names, acts[place + 1 : place + 1 + _MAX_EDITED])):
            kept.append(act)
            seen |= names
    return kept


def _is_run_next(made: set[str], later: Sequence[Act]) -> bool:
    for act in later:
        is_other = made.isdisjoint(_names(act))
        if act.kind in ("test", "execute") and not is_other:
            return True
        if act.kind == "edit" and is_other:
            return False
    return False


def _names(act: Act) -> set[str]:
    return {path.rpartition("/")[2] for path in act.paths[:_MAX_PATHS]}


def _count_files(paths: Iterable[str]) -> int:
    """Different files; the last ones are compared."""
    seen: dict[str, None] = {}
    for path in map(_plain, map(_without_revision, paths)):
        if not any(_is_spelling(path, known) for known in list(seen)[-_MAX_EDITED:]):
            seen[path] = None
    return len(seen)


def _without_revision(path: str) -> str:
    """`HEAD:a.py` is a.py as it was: explored, but not read back."""
    return path if is_named_by_another(path) else path.rpartition(":")[2]


def _reads_back(acts: Sequence[Act]) -> bool:
    edited: dict[str, None] = {}
    for act in acts:
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
    return _is_spelling(a, b) or _is_match(a, b) or _is_match(b, a)


def _is_match(path: str, pattern: str) -> bool:
    if is_named_by_another(pattern):
        return True
    return any(c in pattern for c in "*?[") and (
        fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern}")
    )


def _is_spelling(a: str, b: str) -> bool:
    short, long = sorted((a, b), key=len)
    return a == b or long.endswith("/" + short)


def _plain(path: str) -> str:
    return str(PurePosixPath(path.strip().strip("'\"")))


def _finishes(messages: Sequence[Mapping[str, Any]], harness: str, is_completed: bool) -> bool:
    if not is_completed:
        return False
    main = [messages[place] for place in order_of(messages, harness).main]
    last = next((m for m in reversed(main) if m.get("role") == "assistant"), None)
    if last is None:
        return False
    ending = calls_of([last], harness)[-1:]
    if ending and any(act.kind == "finish" for act in ending[0].acts):
        return True
    return harness in ENDS_BY_ANSWER and not last.get("tool_calls") and not ending


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
