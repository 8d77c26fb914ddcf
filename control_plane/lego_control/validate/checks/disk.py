"""Disk: an estimate of a run's checkpoints and trajectories against what is free where runs are written."""

from __future__ import annotations

import shutil
from pathlib import Path

from lego_control.validate.base import Broken, Ground
from lego_control.validate.model import model_dir, weight_bytes

GIB = 2**30
BYTES_PER_TOKEN = 40
"""Compressed bytes of ids, log-probabilities, routes and text for one sampled token and its context."""
SPENT = 0.25
"""Share of the token budget that the average rollout uses: more than in any run of the paper."""


def run(ground: Ground) -> str:
    recipe = ground.recipe
    folder = model_dir(ground)
    weights = weight_bytes(folder) if folder else 20 * 2**20
    rollouts = recipe.train.steps * recipe.rollout.groups_per_step * recipe.rollout.group_size
    kept = recipe.train.keep_checkpoints * (1 + recipe.eval.engines)  # as many wait for their evaluation
    wanted = int(weights * 6 * (kept + 1) + rollouts * recipe.rollout.max_tokens * SPENT * BYTES_PER_TOKEN)
    runs = Path(recipe.run.runs_dir).absolute()
    free = shutil.disk_usage(next(p for p in (runs, *runs.parents) if p.exists())).free
    if wanted > free:
        raise Broken(
            f"a run takes about {wanted / GIB:.1f} GiB in {runs}, {free / GIB:.1f} GiB are free",
            "free some space, choose another run.runs_dir, or lower train.keep_checkpoints",
        )
    return f"about {wanted / GIB:.1f} GiB of {free / GIB:.1f} GiB that are free"
