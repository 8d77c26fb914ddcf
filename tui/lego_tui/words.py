"""Numbers as short text, and small drawings of them in characters. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_EIGHTHS = " ▁▂▃▄▅▆▇█"


def number(value: float | None, digits: int = 3) -> str:
    """`value` with so many decimals; `–` for what was not measured."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def small(value: float | None) -> str:
    """A magnitude, in powers of ten."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.1e}"


def percent(share: float | None) -> str:
    """A share as whole per cent."""
    return "–" if share is None or not math.isfinite(100 * share) else f"{100 * share:.0f} %"


def duration(seconds: float | None) -> str:
    """`42 s`, `6:05 min` or `2:07 h`; `–` when unknown."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"


def facts(fields: Mapping[str, Any]) -> str:
    """What an event holds, on one line: its sentence first, numbers short, what is empty left out."""
    told = [str(fields["text"])] if fields.get("text") else []
    rest = ((key, value) for key, value in fields.items() if key != "text" and value not in ("", None))
    return "  ".join([*told, *(f"{key} {f'{v:.4g}' if isinstance(v, float) else v}" for key, v in rest)])


def clock(seconds: float, form: str) -> str:
    """A Unix time in UTC; `?` where it is no time."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return "?"


def sparkline(values: Sequence[float | None], width: int = 40) -> str:
    """The last `width` values in [0, 1], one character each; a gap where there is none."""
    return "".join(" " if v is None else _EIGHTHS[1 + round(7 * _clamp(v))] for v in values[-width:])


def chart(values: Sequence[float | None], *, width: int = 60, height: int = 10) -> list[str]:
    """Columns of values in [0, 1] above each other's step, with an axis; the last `width` values.

    >>> chart([0.0, 0.5, 1.0], height=2)
    ['1.0 ┤  █', '0.5 ┤ ██', '    └───']
    """
    shown = values[-width:]
    lines: list[str] = []
    for row in range(height - 1, -1, -1):
        cells = (" " if v is None else _EIGHTHS[round(8 * _clamp(_clamp(v) * height - row))] for v in shown)
        lines.append(f"{(row + 1) / height:.1f} ┤{''.join(cells)}")
    return [*lines, "    └" + "─" * len(shown)]


def _clamp(value: float) -> float:
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0
