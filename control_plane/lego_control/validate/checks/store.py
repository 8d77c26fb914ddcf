"""A run directory works where runs will be written: appends, syncs, locks and reads."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from lego_control.validate.base import Broken, Ground
from lego_core.store import RunReader, RunStatus, RunWriter
from lego_harness.errors import LegoError


def run(ground: Ground) -> str:
    recipe = ground.recipe.model_copy(
        update={"run": ground.recipe.run.model_copy(update={"name": "validate"})}
    )
    remedy = "choose a run.runs_dir on a file system with locks and fsync, and room in it"
    root: Path | None = None
    made = not Path(recipe.run.runs_dir).exists()
    try:
        writer = RunWriter.create(Path(recipe.run.runs_dir), recipe)
        root = writer.layout.root
        reader = RunReader(root)
        writer.event("probe", value=1)
        while_open = reader.status()
        writer.close(RunStatus.FINISHED)
        kinds = [event.kind for event in reader.events()]
        after = reader.status()
    except (LegoError, OSError) as error:
        raise Broken(f"a run cannot be written: {error}", remedy) from error
    finally:
        if root is not None:
            shutil.rmtree(root, ignore_errors=True)
        if made:
            with suppress(OSError):  # somebody else's run may be there by now
                Path(recipe.run.runs_dir).rmdir()
    if (while_open, after) != (RunStatus.RUNNING, RunStatus.FINISHED) or "probe" not in kinds:
        raise Broken(f"a run that was written reads as {while_open}, then {after}, events {kinds}", remedy)
    return f"written and read back in {recipe.run.runs_dir}"
