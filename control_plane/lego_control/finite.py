"""Numbers on the command line that are finite: NaN passes click's ranges, and every comparison with it is false."""

from __future__ import annotations

import math

import click


def finite(_context: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    """An option's callback: refuses NaN and infinity."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no finite number.")
    return value
