"""What pydantic says about a value from outside, in words for the person who wrote it."""

from __future__ import annotations

from typing import Any

from lego_harness.text import one_line

_RAISED_BY_US = ("Value error, ", "Assertion failed, ")
"""What pydantic puts before the text of a validator of ours."""


def reason(found: Any) -> str:
    """The message of one item of `ValidationError.errors()`.

    >>> reason({"type": "value_error", "msg": "Value error, expected min, max or both"})
    'expected min, max or both'
    """
    said = str(found["msg"])
    for prefix in _RAISED_BY_US:
        said = said.removeprefix(prefix)
    return said


def got(found: Any) -> str:
    """The value that was given, as one short line, however deeply it is nested."""
    try:
        return one_line(repr(found["input"]), limit=80)
    except RecursionError:
        return "something nested too deeply"
