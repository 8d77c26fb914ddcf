"""A run's quarantine: reports each finding once, and outlives the process.

    rollouts of a step ─▶ Quarantine ─▶ an event per task that is new       checkpoint ─▶ a resumed run

Invariant: a checkpoint carries what its run knew, so that nothing has to be read again, and a task that
has its event gets no second one. `rollouts/quarantine.py` decides which tasks those are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from lego_core.resume import STATE_FILE
from lego_core.rollouts.quarantine import EVENT, Quarantine
from lego_core.store.json_records import decode, encode, to_json
from lego_core.store.reader import RunReader
from lego_core.store.writer import RunWriter
from lego_harness.errors import InfrastructureError
from lego_harness.types import Trajectory

STATE_KEY = "quarantine"


class RunQuarantine:
    """What a run knows about its tasks; `of_run` makes one."""

    def __init__(self, writer: RunWriter, known: Quarantine, told: set[str]) -> None:
        self.known = known
        self._writer = writer
        self._told = told
        """Tasks whose event is written."""

    @classmethod
    def of_run(cls, writer: RunWriter, checkpoint: Path | None) -> Self:
        """As the newest checkpoint left it; raises InfrastructureError if that cannot be read."""
        events = RunReader(writer.layout.root).events()
        told = {str(event.fields.get("task_id")) for event in events if event.kind == EVENT}
        return cls(writer, _stored(checkpoint) if checkpoint else Quarantine(), told)

    def observe(self, trajectories: Iterable[Trajectory], *, step: int) -> None:
        """Look at the rollouts of a step, once they are stored."""
        for found in self.known.observe(trajectories, step=step):
            if found.task_id not in self._told:
                self._writer.event(EVENT, **asdict(found))
                self._told.add(found.task_id)

    def state(self) -> dict[str, Any]:
        """What a checkpoint has to carry."""
        return {STATE_KEY: to_json(self.known)}


def _stored(checkpoint: Path) -> Quarantine:
    path = checkpoint / STATE_FILE
    try:
        return decode(Quarantine, encode(json.loads(path.read_bytes()).get(STATE_KEY, {})))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InfrastructureError(
            f"{path}: cannot tell which tasks are quarantined ({error}); remove {checkpoint} to go on from "
            "the step before it"
        ) from error
