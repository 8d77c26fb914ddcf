"""What a run trains on: its task pool and its starting policy.

Generates and caches what the recipe asks to be generated; proves every task before use (untouched
earns 0, the reference solution earns 1) and refuses a pool with a task that fails. Starts nothing
that outlives the call.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lego_core.config import Recipe
from lego_harness.errors import UsageError
from lego_harness.sandbox.base import SandboxBackend
from lego_harness.tasks.folder import load_pool
from lego_harness.tasks.proof import prove
from lego_harness.tasks.synth import write_pool
from lego_harness.types import Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """Checked inputs of a run."""

    train: tuple[Task, ...]
    heldout: tuple[Task, ...]
    model_dir: Path
    """Checkpoint folder of the starting policy, tokenizer and chat template included."""


def cache_dir() -> Path:
    """Where generated things are kept between runs: $LEGO_CACHE, else ~/.cache/lego-rl."""
    return Path(os.environ.get("LEGO_CACHE") or Path.home() / ".cache" / "lego-rl")


async def prepare_tasks(recipe: Recipe, backend: SandboxBackend) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Train and held-out tasks of the recipe, every one proven. Raises UsageError."""
    pool = load_pool(_pool_folder(recipe))
    train = _take([t for t in pool if t.split == "train"], recipe.tasks.num_train, "train")
    heldout = _take([t for t in pool if t.split == "heldout"], recipe.tasks.num_heldout, "heldout")
    failed = [p for p in await prove((*train, *heldout), backend) if not p.holds]
    if failed:
        raise UsageError(
            f"{len(failed)} of {len(train) + len(heldout)} tasks are not usable, first {failed[0].task_id}: "
            f"{failed[0].reason}; repair them or take them out of the pool"
        )
    return train, heldout


def _pool_folder(recipe: Recipe) -> Path:
    if recipe.tasks.pool != "synth":
        return Path(recipe.tasks.pool)
    return write_pool(
        cache_dir() / "tasks", num_train=recipe.tasks.num_train, num_heldout=recipe.tasks.num_heldout
    )


def _take(tasks: Sequence[Task], count: int, split: str) -> tuple[Task, ...]:
    if len(tasks) < count:
        raise UsageError(
            f"the pool has {len(tasks)} {split} tasks, the recipe wants {count}: lower tasks.num_{split}"
        )
    return tuple(tasks[:count])
