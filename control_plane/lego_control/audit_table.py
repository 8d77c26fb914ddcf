"""audit.json: what an audit found about each task, kept in the pool of the sound ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from lego_harness.tasks.audit import Audit
from lego_harness.tasks.copying import copy_task
from lego_harness.types import Task

FILE = "audit.json"


class Table(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pool: str
    repeat: int
    sandbox: str
    """The backend's name."""
    tasks: tuple[Audit, ...] = ()


def copy_sound(tasks: Sequence[Task], audits: Sequence[Audit], into: Path) -> None:
    """The tasks without a fault."""
    bad = {one.task_id for one in audits if one.faults}
    for task in tasks:
        if task.id not in bad:
            copy_task(task.path, into)
