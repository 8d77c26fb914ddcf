"""Step records from flat numbers: `acted.turns`, `dropped.ungraded:timeout`, `reward_mean`.

For readers that are lenient where the store's is strict (a display, an index of many runs), so that they
compute the same measures. Invariant: nothing raises; what is missing counts as not measured or as
none, and unknown names are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from lego_core.types import Acted, StepRecord

_TABLES = ("masked", "dropped", "seconds", "acted", "lag")
_EMPTY: dict[str, Any] = {
    field.name: 0 if field.type in ("int", "float") else {} if field.type.startswith("dict") else None
    for field in dataclasses.fields(StepRecord)
}
_COUNTS = tuple(field.name for field in dataclasses.fields(Acted) if field.name != "stop_reasons")


def step_record(step: int, flat: Mapping[str, float | None]) -> StepRecord:
    """As much of a record as there is; ids of rollouts are not."""
    tables: dict[str, dict[str, Any]] = {name: {} for name in _TABLES}
    values = dict(_EMPTY)
    for key, value in flat.items():
        name, dot, part = key.partition(".")
        if not dot and name in values:
            values[name] = value if value is not None or values[name] is None else 0
        elif dot and name in tables:
            tables[name][part] = value or 0
    acted = tables.pop("acted")
    values.update(tables, step=step, trained_rollouts=())
    values["acted"] = _acted(acted) if acted else None
    return StepRecord(**values)


def _acted(found: dict[str, Any]) -> Acted:
    counts: dict[str, Any] = {name: found.get(name, 0) for name in _COUNTS}
    return Acted(**counts, stop_reasons={})  # nested too deep to be flat; no detector reads it
