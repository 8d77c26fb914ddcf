"""What a run trains on: its task pool and its starting policy.

Generates and caches what the recipe asks to be generated. Proves every task before use (untouched it
earns 0, with the reference solution 1) and refuses a pool with a task that fails. Starts nothing
that outlives the call.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from lego_core.config import BUILT_POLICIES, Recipe
from lego_core.model_config import read_config
from lego_core.tiny.script import SCRIPTS
from lego_harness.errors import SetupError, UsageError
from lego_harness.proxy.render import Renderer
from lego_harness.sandbox.base import SandboxBackend
from lego_harness.tasks.folder import load_pool
from lego_harness.tasks.proof import prove
from lego_harness.tasks.synth import write_pool
from lego_harness.types import Task


async def prepare_tasks(
    recipe: Recipe, folder: Path, backend: SandboxBackend
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Train and held-out tasks of the recipe, every one proven; a generated pool is written to
    `folder`. Raises UsageError."""
    pool = load_pool(_generated(recipe, folder) if recipe.tasks.pool == "synth" else _here(recipe.tasks.pool))
    train = _take([t for t in pool if t.split == "train"], recipe.tasks.num_train, "train")
    heldout = _take([t for t in pool if t.split == "heldout"], recipe.tasks.num_heldout, "heldout")
    failed = [p for p in await prove((*train, *heldout), backend) if not p.holds]
    if failed:
        raise UsageError(
            f"{len(failed)} of {len(train) + len(heldout)} tasks are not usable, first {failed[0].task_id}: "
            f"{failed[0].reason}; repair them or take them out of the pool"
        )
    return train, heldout


def _here(path: str) -> Path:
    """Absolute, as this process understands it: others start in other folders."""
    return Path(path).absolute()


def _generated(recipe: Recipe, folder: Path) -> Path:
    """The folder with the whole pool in it: it appears at once or not at all."""
    if not folder.is_dir():
        unfinished = folder.with_suffix(".unfinished")
        write_pool(
            unfinished,
            num_train=recipe.tasks.num_train,
            num_heldout=recipe.tasks.num_heldout,
            seed=recipe.run.seed,
        )
        unfinished.rename(folder)
    return folder


def _take(tasks: Sequence[Task], count: int, split: str) -> tuple[Task, ...]:
    if len(tasks) < count:
        raise UsageError(
            f"the pool has {len(tasks)} {split} tasks, the recipe wants {count}: lower tasks.num_{split}"
        )
    return tuple(tasks[:count])


async def prepare_model(recipe: Recipe) -> Path:
    """Checkpoint folder of the starting policy; builds one of ours if the recipe asks for it."""
    name = recipe.model.path
    if name not in BUILT_POLICIES:
        return _checkpoint(_here(name), recipe)
    if recipe.harness.name not in SCRIPTS:
        raise UsageError(
            f"there is no {name} policy for {recipe.harness.name}, only for {', '.join(SCRIPTS)}; "
            "set model.path to a checkpoint folder"
        )
    if recipe.model.template_options:
        raise UsageError(f"model.template_options: the {name} policy's chat template has none, expected none")
    if name == "smollm2":
        from lego_core.smollm2 import find_weights  # its libraries take a second

        find_weights()
    # A process of its own: warming up takes gigabytes, which this one would keep for the whole run.
    program = [sys.executable, "-m", f"lego_core.{name}"]
    arguments = ["--harness", recipe.harness.name, "--sandbox", recipe.sandbox.backend]
    process = await asyncio.create_subprocess_exec(
        *program, *arguments, "--seed", str(recipe.run.seed), stdout=asyncio.subprocess.PIPE
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise SetupError(
            f"the {name} policy was not built: its builder ended with {process.returncode}; see the log"
        )
    return Path(output.decode().split("\n")[-2])


def _checkpoint(folder: Path, recipe: Recipe) -> Path:
    missing = [name for name in ("config.json", "tokenizer.json") if not (folder / name).is_file()]
    if missing:
        raise UsageError(
            f"model.path {folder}: has no {' and no '.join(missing)}, expected a checkpoint folder"
        )
    _require_own_tokenizer(folder)
    Renderer.load(
        folder, max_model_len=recipe.engine.max_model_len, template_options=recipe.model.template_options
    )
    return folder


def _require_own_tokenizer(folder: Path) -> None:
    """Ids the model has no embedding for would be refused by the engine in the middle of a run, or worse."""
    rows = read_config(folder).get("vocab_size")
    highest = max(Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab().values(), default=-1)
    if rows is not None and highest >= rows:
        raise UsageError(
            f"model.path {folder}: its tokenizer has ids up to {highest}, its embedding {rows} rows, expected one "
            "for each id: the tokenizer is another model's"
        )
