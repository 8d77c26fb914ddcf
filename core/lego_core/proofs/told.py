"""What a proof says: plain values, since it is read in another process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """The outcome of one proof."""

    name: str
    status: str
    """`passed`, `failed`, `skipped` or `error`."""
    evidence: str
    remedy: str = ""
