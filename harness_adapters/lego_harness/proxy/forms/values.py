"""JSON values in sampled text.

Invariant: a value that is read can be sent to any harness and comes back as it went; one that cannot
(NaN, 1e999, a lone surrogate, nested beyond what dialects accept) is none.
"""

from __future__ import annotations

import json
from typing import Any

from lego_harness.proxy.forms.base import skip_blanks
from lego_harness.proxy.strict_json import DECODER, MAX_DEPTH, is_deep


def read_value(text: str, at: int) -> tuple[Any, int]:
    """The value that begins at `at` and the position behind it; raises ValueError."""
    try:
        value, end = DECODER.raw_decode(text, at)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if is_deep(value, MAX_DEPTH - 1):  # an object of arguments may come around it
        raise ValueError("nested too deeply")
    json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate: ValueError
    return value, end


def whole_value(text: str) -> Any:
    """The value that a text is, blanks around it allowed; raises ValueError."""
    value, end = read_value(text, skip_blanks(text, 0))
    if skip_blanks(text, end) < len(text):
        raise ValueError("there is more behind the value")
    return value
