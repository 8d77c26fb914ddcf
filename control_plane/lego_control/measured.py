"""What the steps of an indexed run measured, read incrementally.

Owns what was read so far, for each run. Invariants: the result is the same as reading everything anew, after a rewind
too; several threads may ask at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lego_core.health.flat import step_record
from lego_core.health.series import row_of

if TYPE_CHECKING:
    from lego_control.run import Run

WHAT = "measured"
_QUESTION = (
    "SELECT key, step, value FROM metric WHERE step > ? AND key IN (SELECT key FROM metric_key WHERE "
    "NOT (key GLOB 'seconds.*' OR key GLOB 'masked.*'))"
)
"""Values after a step of every metric that a column of a series is made from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The steps so far; replaced, never changed."""

    num_rewound: int
    """Of the index when they were read."""
    steps: Sequence[int]
    rows: Sequence[Sequence[float]]
    """`[len(steps), len(COLUMNS)]`"""


def measured_so_far(run: Run) -> Measured:
    """All steps of the index, which must be fresh."""
    while True:
        num_rewound = run.index.num_rewound("steps")
        before = run.memory.get(WHAT)
        if before is None or before.num_rewound != num_rewound:
            before = Measured(num_rewound=num_rewound, steps=(), rows=())
        found = _behind(run, before)
        if run.index.num_rewound("steps") == num_rewound:  # nobody took anything back meanwhile
            run.memory[WHAT] = found
            return found


def _behind(run: Run, before: Measured) -> Measured:
    flat: dict[int, dict[str, Any]] = {}
    for key, step, value in run.index.rows(_QUESTION, (before.steps[-1] if before.steps else -1,)):
        flat.setdefault(step, {})[key] = float(value) if isinstance(value, str) else value
    if not flat:
        return before
    steps = sorted(flat)
    return Measured(
        num_rewound=before.num_rewound,
        steps=[*before.steps, *steps],
        rows=[*before.rows, *(_row(step, flat[step]) for step in steps)],
    )


def _row(step: int, values: Mapping[str, Any]) -> list[float]:
    return row_of(step_record(step, values))
