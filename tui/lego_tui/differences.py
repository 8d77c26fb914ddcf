"""How the recipes of runs differ. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from lego_tui.feed.run import RunFeed


def differences(runs: Sequence[RunFeed]) -> list[tuple[str, list[Any]]]:
    """Keys of the recipes that differ, with each run's value."""
    flat: list[dict[str, Any]] = [
        {
            f"{section}.{key}": value
            for section, table in run.recipe.items()
            if isinstance(table, dict)
            for key, value in cast(dict[str, Any], table).items()
        }
        for run in runs
    ]
    keys = sorted(set[str]().union(*flat))
    return [
        (key, [f.get(key, "–") for f in flat]) for key in keys if len({repr(f.get(key)) for f in flat}) > 1
    ]
