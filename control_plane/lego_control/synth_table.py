"""synth.json: the options of a pool made from real projects, and what became of each project.

Invariant: the task folders next to it belong to finished projects.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from lego_harness.synthesis.build import Built
from lego_harness.synthesis.catalogue import Pin

FILE = "synth.json"


class Table(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int
    size: int
    repeat: int
    sandbox: str
    """The backend's name."""
    heldout: tuple[str, ...]
    projects: tuple[Built, ...] = ()
    refused: dict[str, str] = {}
    """What was given as a project → why it is none."""

    def done(self, pin: Pin) -> bool:
        """Whether this very archive has been through."""
        wanted = (pin.name, pin.version, pin.sha256)
        return any((one.project, one.version, one.sha256) == wanted for one in self.projects)


def clean(folder: Path, table: Table) -> None:
    """Remove what a command that ended early left of an unfinished project."""
    kept = {FILE, *(made.task for built in table.projects for made in built.tasks if not made.faults)}
    for path in folder.iterdir():
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
