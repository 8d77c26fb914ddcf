"""The folders a recipe names are there, and runs can be written."""

from __future__ import annotations

import os
from pathlib import Path

from lego_control.validate.base import Broken, Ground
from lego_core.config import BUILT_POLICIES


def run(ground: Ground) -> str:
    recipe = ground.recipe
    for key, value, standing_for in (
        ("model.path", recipe.model.path, BUILT_POLICIES),
        ("tasks.pool", recipe.tasks.pool, ("synth",)),
    ):
        if value not in standing_for and not Path(value).is_dir():
            raise Broken(f"{key} {value}: there is no such folder", f"set {key} to a folder that exists")
    runs = Path(recipe.run.runs_dir)
    nearest = next(folder for folder in (runs, *runs.absolute().parents) if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise Broken(
            f"run.runs_dir {runs}: {nearest} cannot be written", "choose another run.runs_dir, or its owner"
        )
    return f"model {recipe.model.path}, tasks {recipe.tasks.pool}, runs in {runs}"
