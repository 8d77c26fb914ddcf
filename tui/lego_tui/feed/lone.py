"""Lone surrogates in JSON (half characters): a model can sample them and Python can store them, but msgspec refuses.

Owns their replacement by U+FFFD, for display only; the store's reader gives back what was written.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.S
)


def decode(data: bytes, kind: type[T]) -> T:
    """Like msgspec's, but half characters are no error. Raises msgspec.DecodeError, a ValueError."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        whole = repaired(data)
        if whole == data:
            raise
        return msgspec.json.decode(whole, type=kind)


def repaired(data: bytes) -> bytes:
    """The same JSON with a replacement character for each half of one."""
    return _ESCAPE.sub(lambda match: rb"\ufffd" if match[1] else match[0], data)
