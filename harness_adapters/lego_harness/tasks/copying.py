"""Copies a task folder into another pool: unchanged, and a valid task there too, or not at all.

Links are kept as links, and so must be relative; a task may not take a name that a pool uses for something else.
Invariant: what was copied was loaded again at its new place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from lego_harness.errors import UsageError
from lego_harness.tasks.folder import load_task

RECORDS = ("audit.json", "import.json", "selection.json", "synth.json")
"""What a pool tells of itself."""


def copy_task(folder: Path, pool: Path) -> str:
    """Its id, once it is in `pool`; raises UsageError with what keeps it out."""
    task = load_task(folder)
    place = free_place(pool, task.id)
    if place.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{folder}: the new pool would lie in it, expected a place outside")
    for link in _links(folder):
        if link.readlink().is_absolute():
            raise UsageError(f"{link}: an absolute link leads out of a copy; make it relative")
    shutil.copytree(folder, place, symlinks=True)
    require_loads(place)
    return task.id


def free_place(pool: Path, name: str) -> Path:
    """Where a task of that name goes; raises UsageError if it cannot."""
    if name in RECORDS:
        raise UsageError(f"{name} is what a pool calls its record, expected another name")
    if os.path.lexists(pool / name):
        raise UsageError("another task has the same name, expected each once")
    return pool / name


def require_loads(place: Path) -> None:
    """Keep what was written there if it is a valid task, otherwise remove it; raises UsageError."""
    try:
        load_task(place)
    except UsageError as error:
        shutil.rmtree(place)
        raise UsageError(str(error).replace(f"{place.absolute()}/", "").replace(f"{place}/", "")) from error


def unseen_links(folder: Path) -> list[str]:
    """Links to folders below a task's workspace and tests: what they point to would not be seen."""
    places = (folder / "environment" / "repo", folder / "tests")
    links = (link for place in places for link in _links(place) if link.is_dir())
    return sorted(link.relative_to(folder).as_posix() for link in links)


def _links(folder: Path) -> Iterator[Path]:
    for inner, folders, names in os.walk(folder):
        paths = (Path(inner, name) for name in (*folders, *names))
        yield from (path for path in paths if path.is_symlink())
