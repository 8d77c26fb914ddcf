"""Which acts of a call happened, judged by its result.

What a result does not contradict happened. Pure.
"""

from __future__ import annotations

import re
from dataclasses import replace

from lego_tui.behaviours.results import (
    has_words_of_tests,
    is_listing,
    is_refused,
    is_report,
    is_silent,
    lacks_runner,
    never_started,
    tells_code,
)
from lego_tui.behaviours.vocabulary import Act

_MISSING = re.compile(r"no such (?:file|path)|did not match any file", re.I)
"""What a program says of a file that is not there."""
_NAMES = re.compile(r"[^\s:'\"`,()]+")
_NOTHING = Act(kind="run")


def happened(acts: tuple[Act, ...], harness: str, result: str, is_failed: bool) -> tuple[Act, ...]:
    """The acts as they came to pass: what did not is a mere `run`."""
    if is_failed and is_refused(result):
        return (_NOTHING,)
    if acts and acts[0].kind == "read" and is_listing(result):
        return (Act(kind="explore"),)
    text = result.replace("\\n", "\n").replace("\\u0027", "'")
    gone = _gone(text)
    seen = tuple(_heard(_present(act, gone), harness, text, is_failed) for act in acts)
    is_void = is_failed and len(seen) == 1 and _is_void(seen[0], harness, text)
    return (_NOTHING,) if is_void else seen


def _is_void(act: Act, harness: str, text: str) -> bool:
    """A test run that failed ran; of several commands any may have."""
    return act.kind in ("read", "edit", "finish") or never_started(harness, text)


def _gone(text: str) -> frozenset[str]:
    """The last parts of the names that a result says to be missing."""
    lines = (line for line in text.split("\n") if _MISSING.search(line))
    return frozenset(_last(name) for line in lines for name in _NAMES.findall(line))


def _present(act: Act, gone: frozenset[str]) -> Act:
    """An act without the files that were not there. A program that was not there did not run; a new file may be made."""
    if act.is_whole:
        return act
    there = tuple(path for path in act.paths if _last(path) not in gone)
    if there == act.paths:
        return act
    is_nothing = act.kind in ("test", "execute") or not there
    return _NOTHING if is_nothing else replace(act, paths=there)


def _heard(act: Act, harness: str, text: str, is_failed: bool) -> Act:
    """An act by what the result says of it, or that it says nothing."""
    if act.may_test and is_report(text):
        return replace(act, kind="test")
    if act.kind == "test" and lacks_runner(text):
        return _NOTHING
    if act.kind == "test" and act.is_loud and act.is_conditional and is_failed:
        return act if has_words_of_tests(text) else _NOTHING
    is_telling = act.kind == "read" or is_failed or not tells_code(harness)
    return _NOTHING if act.is_loud and is_telling and is_silent(harness, text) else act


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
