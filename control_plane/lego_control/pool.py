"""Generates the repair tasks a run would, for a person to look at, and proves them on request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from lego_core.recipe_file import load_recipe
from lego_harness.errors import UsageError
from lego_harness.output import writing
from lego_harness.sandbox.choose import choose_backend
from lego_harness.tasks.folder import load_pool
from lego_harness.tasks.proof import prove
from lego_harness.tasks.synth import write_pool
from lego_harness.types import Task


def make_pool(recipe: Path, folder: Path, *, seed: int, prove_in: str | None, console: Console) -> None:
    """Write as many tasks as the recipe asks for into `folder`; with `prove_in`, prove each in that
    sandbox. Raises UsageError naming the first task that does not hold."""
    sizes = load_recipe(recipe).tasks
    with writing(f"--out {folder}"):
        write_pool(folder, num_train=sizes.num_train, num_heldout=sizes.num_heldout, seed=seed)
    pool = load_pool(folder)
    console.print(f"{len(pool)} tasks in {folder}, for example:", soft_wrap=True)
    console.print(f"  {pool[0].id}: {pool[0].instruction.strip()}", soft_wrap=True, markup=False)
    if prove_in is not None:
        asyncio.run(_prove_all(pool, prove_in, console))


async def _prove_all(pool: Sequence[Task], sandbox: str, console: Console) -> None:
    backend = choose_backend(sandbox)
    await backend.check()
    failed = [proof for proof in await prove(pool, backend) if not proof.holds]
    if failed:
        raise UsageError(
            f"{len(failed)} of {len(pool)} tasks do not hold, first {failed[0].task_id}: {failed[0].reason}"
        )
    console.print(f"all {len(pool)} proven in {backend.name}: untouched earns 0, the reference solution 1")
