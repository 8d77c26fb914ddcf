"""What an act may be: one vocabulary for every harness. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from lego_tui.behaviours.substitutions import is_named_by_another

KINDS = ("finish", "edit", "test", "execute", "read", "explore", "run")
"""What a command may be, the most telling first. `execute` runs a program of somebody's (an interpreter, a script),
`run` is everything else. An `edit` changes, makes or removes a file, scratch files (`is_scratch`) aside; what a test
run or a program prints into a file is none."""
_SCRATCH = re.compile(
    r"/(?:var/)?tmp(?:/|$)|/dev/|(?:.*/)?(?:__pycache__|\.\w+_cache)(?:/|$)|(?:.*/)?(?:build|dist|[^/]*\.(?:egg-info|pyc))/?$"
)
"""Folders for temporary files, and what a test run or a build leaves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """What one command does, or one call of a tool that is not a shell."""

    kind: str
    """One of KINDS."""
    paths: tuple[str, ...] = ()
    """Files it names, if it reads, edits, tests or executes."""
    is_whole: bool = False
    """An edit that writes the file as a whole, so that it may be a new one."""
    is_loud: bool = False
    """Where the call's result says nothing at all, it did not happen: a test runner whose output is shown, a reading
    whose complaints are hidden."""
    is_conditional: bool = False
    """It may not have been reached: it stands behind `&&` or `set -e`."""
    may_test: bool = False
    """What it runs stands elsewhere, so that it is a test run where the result is the report of one."""


def is_scratch(path: str) -> bool:
    """Whether a path is a temporary file, or what a test run or a build leaves: nobody's work."""
    if is_named_by_another(path):
        return any(_SCRATCH.match(word) for word in path[2:-1].split())
    return _SCRATCH.match(path) is not None


def settled(act: Act) -> Act:
    """An edit of scratch files only is no edit."""
    is_nothing = act.kind == "edit" and bool(act.paths) and all(map(is_scratch, act.paths))
    return replace(act, kind="run") if is_nothing else act
