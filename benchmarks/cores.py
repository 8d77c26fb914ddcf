"""The program under test has a core of its own; everything else is on the others.

A proxy and its client take turns: on one core each would find the other's data in the caches. On a
machine with one core nothing is pinned.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache


@cache
def _allowed() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))


def own() -> set[int]:
    """For the program under test."""
    return set(_allowed()[-1:])


def others() -> set[int]:
    """For whoever measures, loads or answers."""
    return set(_allowed()[:-1]) or own()


@contextmanager
def aside() -> Generator[None]:
    """This process and all that it starts, unless told otherwise, keep out of the way."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, others())
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
