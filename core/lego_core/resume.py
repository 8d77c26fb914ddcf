"""Where an interrupted run stands.

A step is committed by its checkpoint, which carries the step's own record. Its line ends steps.jsonl, and
whatever an attempt wrote after it is discarded (`store/rewind.py`). Rollouts sampled for later steps,
or for an evaluation without a result, are uncommitted: they are handed back, to be used and not
sampled again. Reads only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lego_core.store.json_records import decode, encode, to_json
from lego_core.store.layout import IndexEntry
from lego_core.store.reader import RunReader
from lego_core.types import StepRecord
from lego_harness.errors import InfrastructureError, UsageError
from lego_harness.types import Trajectory

STATE_FILE = "state.json"
RECORD_KEY = "step_record"
ORDER_KEY = "data_order"


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """What a run directory says about its past; all empty for a new one."""

    committed: int
    """Last step with a checkpoint; 0 when there is none."""
    checkpoint: Path | None
    missing_record: StepRecord | None
    """Record of the committed step, to be written again if steps.jsonl does not end with it: the process died
    between checkpoint and line, or after later steps that are discarded."""
    stored: tuple[Trajectory, ...]
    """Uncommitted trajectories in order of recording."""
    evaluated: frozenset[int]
    """Steps whose held-out evaluation has its result."""


def find_progress(run_dir: Path) -> Progress:
    """Read a run directory's commits; raises InfrastructureError if a checkpoint is broken."""
    reader = RunReader(run_dir)
    checkpoint = max(reader.layout.committed(), default=None)
    committed = int(checkpoint.name) if checkpoint else 0
    evaluated = frozenset(record.step for record in reader.heldout())
    return Progress(
        committed=committed,
        checkpoint=checkpoint,
        missing_record=_missing_record(checkpoint, reader.steps()) if checkpoint else None,
        stored=tuple(
            reader.load(e) for e in reader.trajectory_index() if _is_uncommitted(e, committed, evaluated)
        ),
        evaluated=evaluated,
    )


def _missing_record(checkpoint: Path, recorded: Sequence[StepRecord]) -> StepRecord | None:
    """The line of the checkpoint's step, which also knows how long publishing took, or the checkpoint's own record
    if that line is absent or from another attempt; None if it is already the last line."""
    committed = read_record(checkpoint)
    line = next((r for r in recorded if r.step == committed.step and _is_same(r, committed)), None)
    return None if line and line is recorded[-1] else line or committed


def _is_same(one: StepRecord, other: StepRecord) -> bool:
    """But for what `accounts.timed` measures."""
    untimed = {"seconds": {}, "tokens_per_s": 0.0, "trainer_idle": None, "engine_idle": None}
    return to_json(replace(one, **untimed)) == to_json(replace(other, **untimed))


def read_record(checkpoint: Path) -> StepRecord:
    """The record of the step a checkpoint commits."""
    try:
        return decode(StepRecord, encode(_state(checkpoint)[RECORD_KEY]))
    except (ValueError, KeyError, TypeError) as error:
        raise InfrastructureError(
            f"{checkpoint / STATE_FILE}: holds no step record ({error}); remove {checkpoint} to go on from the step before it"
        ) from error


def require_same_order(checkpoint: Path, order: dict[str, Any]) -> None:
    """Raise UsageError if the tasks are not those that the checkpoint's run drew from: the next steps would
    silently repeat some and skip others."""
    stored = _state(checkpoint).get(ORDER_KEY)
    if stored is None:
        return
    for key, value in order.items():
        if stored.get(key) != value:
            raise UsageError(
                f"{checkpoint / STATE_FILE}: {key} was {stored.get(key)!r} and is {value!r} now, expected the "
                "same order of data: bring the task pool back to what it was, or start a new run"
            )


def _state(checkpoint: Path) -> dict[str, Any]:
    path = checkpoint / STATE_FILE
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InfrastructureError(
            f"{path}: cannot be read ({error}); remove {checkpoint} to go on from the step before it"
        ) from error


def _is_uncommitted(entry: IndexEntry, committed: int, evaluated: frozenset[int]) -> bool:
    if entry.step is not None:
        return entry.step > committed
    return _evaluation_step(entry.id) not in evaluated


def _evaluation_step(trajectory_id: str) -> int:
    return int(trajectory_id[1:].partition(".")[0])
