"""JSON as the standard has it, for texts that nobody here wrote.

Owns one reader and one writer. Reading refuses what Python adds to JSON (NaN, 1e999) and turns a
lone surrogate, which no UTF-8 text can hold, into U+FFFD. Of duplicate keys the last one counts.
Writing gives ASCII without blanks: it survives any client. Nesting is limited for values that are
walked later, since every walk costs stack.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn, cast

MAX_DEPTH = 100
"""Of arrays and objects inside each other; tool schemas stay below 30."""
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:32]} is out of range")
    return number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


DECODER = json.JSONDecoder(parse_float=_finite_float, parse_constant=_no_constant)
encode = json.JSONEncoder(separators=(",", ":")).encode


def read_object(text: str) -> dict[str, Any] | None:
    """The object that a text is; None when it is something else, no JSON, or too deep to walk."""
    try:
        value: Any = DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or is_deep(cast("object", value)):
        return None
    found = cast("dict[str, Any]", value)
    return without_surrogates(found) if SURROGATE.search(text) else found


def is_deep(value: object, limit: int = MAX_DEPTH) -> bool:
    """Whether arrays and objects lie inside each other more than `limit` times."""
    if isinstance(value, dict):
        inner = list(cast("dict[str, object]", value).values())
    elif isinstance(value, list):
        inner = cast("list[object]", value)
    else:
        return False
    return not limit or any(is_deep(item, limit - 1) for item in inner)


def without_surrogates(value: Any) -> Any:
    """The value with each lone surrogate in its strings and keys replaced."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {without_surrogates(key): without_surrogates(item) for key, item in items}
    if isinstance(value, list):
        return [without_surrogates(item) for item in cast("list[Any]", value)]
    return value
