"""What a proof says, as plain values, because another process reads it."""

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
