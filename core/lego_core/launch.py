"""Starts a run in this process: `python -m lego_core.launch`.

Owns the order in which the parts start and stop, and nothing else. Whatever can be refused is refused
before the run directory exists; whatever was started is stopped, in reverse order, on every way out.
The first line on stdout is `run: <directory>`, where faces follow the run. From then on the output of
this process and its children goes to the run's log; only the last word comes back to stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lego_core.changes import change
from lego_core.config import Recipe
from lego_core.controller import Controller
from lego_core.evaluation import Evaluator
from lego_core.inference.choose import pick_engine
from lego_core.inputs import prepare_model, prepare_tasks
from lego_core.leftovers import end_leftovers, mark_this_launch
from lego_core.model_config import read_config
from lego_core.rank_fit import gpu_share, require_ranks, visible_gpus
from lego_core.ray_places import Joining, own_environment, require_cluster
from lego_core.recipe_file import load_recipe
from lego_core.resume import find_progress, require_same_order
from lego_core.rollouts.recorded import RecordedRollouts, group_attempts, open_gate
from lego_core.rollouts.source import RolloutSource
from lego_core.run_quarantine import RunQuarantine
from lego_core.store.reader import RunReader
from lego_core.store.writer import RunWriter
from lego_harness.errors import LegoError, UsageError
from lego_harness.registry import get_adapter
from lego_harness.sandbox.base import SandboxBackend
from lego_harness.sandbox.choose import choose_backend
from lego_harness.types import Task

if TYPE_CHECKING:
    from lego_core.cluster import Evaluation


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 done, 2 usage, 3 infrastructure, 4 stopped by its watchdog or a person, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    with os.fdopen(os.dup(sys.stderr.fileno()), "w") as terminal:
        try:
            asyncio.run(_main(arguments))
        except LegoError as error:
            terminal.write(f"lego: {error}\n")
            return error.exit_code
        except asyncio.CancelledError:
            return 128 + signal.SIGINT
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lego_core.launch", description="Start or resume a training run.")
    parser.add_argument("--recipe", type=Path, help="TOML file; with --resume the run's own recipe is used")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--resume", type=Path, metavar="RUN")
    parser.add_argument("--ray-address", metavar="HOST:PORT", help="a Ray cluster that runs already")
    return parser


async def _main(arguments: argparse.Namespace) -> None:
    _cancel_on_signals()
    end_leftovers()
    recipe, changes = _recipe(arguments)
    address = arguments.ray_address
    if address is not None:
        require_cluster(address)
    else:
        gpu_share(recipe, visible_gpus())
    backend = choose_backend(recipe.sandbox.backend)
    await backend.check()
    await get_adapter(recipe.harness.name, recipe.harness.options).check()
    engine_kind = _engine_kind()
    place = arguments.resume or Path(recipe.run.runs_dir)
    place = place if address is None else place.absolute()  # other nodes' processes start elsewhere
    writer = RunWriter.resume(place, changes) if arguments.resume else RunWriter.create(place, recipe)
    sys.stdout.write(f"run: {writer.layout.root}\n")
    _print_to(writer.layout.log)
    with writer:
        await _run(recipe, writer, backend, engine_kind, address)


def _recipe(arguments: argparse.Namespace) -> tuple[Recipe, dict[str, Any]]:
    """The recipe that holds, and the changes that a resumed run makes to its own."""
    if arguments.resume is None:
        if arguments.recipe is None:
            raise UsageError("got neither a recipe nor a run to resume, expected one of --recipe, --resume")
        return load_recipe(arguments.recipe, arguments.overrides), {}
    return change(RunReader(arguments.resume).recipe(), arguments.overrides)


async def _run(
    recipe: Recipe, writer: RunWriter, backend: SandboxBackend, engine_kind: str, address: str | None
) -> None:
    if address is None:
        os.environ.update(own_environment())
    from lego_core.cluster import open_cluster  # imports Ray, which reads the environment then

    progress = find_progress(writer.layout.root)
    async with AsyncExitStack() as stack:
        scratch = stack.enter_context(mark_this_launch())
        writer.event("stage", stage="tasks", step=progress.committed)
        train, heldout = await prepare_tasks(recipe, writer.layout.root / "tasks", backend)
        quarantine = RunQuarantine.of_run(writer, progress.checkpoint)
        source = RolloutSource(recipe=recipe, train=train, heldout=heldout, quarantine=quarantine.known)
        if progress.checkpoint is not None:
            require_same_order(progress.checkpoint, source.order(progress.committed))
        writer.event("stage", stage="policy", step=progress.committed)
        model_dir = await prepare_model(recipe)
        require_ranks(recipe.train, read_config(model_dir), visible_gpus() if address is None else 0)
        writer.event("stage", stage="engine", step=progress.committed)
        label = writer.layout.root.name
        cluster = await stack.enter_async_context(
            open_cluster(
                recipe,
                model_dir,
                engine_kind=engine_kind,
                label=label,
                scratch=scratch,
                joining=_joining(address, writer, model_dir, (*train, *heldout)),
            )
        )
        if cluster.by_node:
            writer.event("placed", nodes=cluster.by_node)
        if progress.checkpoint is not None:
            await cluster.trainer.load_checkpoint(progress.checkpoint)
        stored = group_attempts(progress.stored)
        rollouts = RecordedRollouts(rollouts=cluster.rollouts, store=writer, stored=stored)
        controller = Controller(
            recipe=recipe,
            source=source,
            rollouts=rollouts,
            trainer=cluster.trainer,
            engine=cluster.engines,
            evaluator=_evaluator(recipe, source, rollouts, writer, cluster.evaluation),
            writer=writer,
            quarantine=quarantine,
            weights=cluster.weights,
        )
        await controller.run(progress)


def _joining(
    address: str | None, writer: RunWriter, model_dir: Path, tasks: Sequence[Task]
) -> Joining | None:
    """What the nodes of a cluster must see; None for a Ray of the run's own."""
    if address is None:
        return None
    needed = [model_dir / "config.json", *(task.path for task in tasks)]
    return Joining(address=address, shared=writer.layout.exchange, needed=needed)


def _evaluator(
    recipe: Recipe,
    source: RolloutSource,
    rollouts: RecordedRollouts,
    writer: RunWriter,
    apart: Evaluation | None,
) -> Evaluator:
    return Evaluator(
        recipe=recipe,
        source=source,
        rollouts=replace(rollouts, rollouts=apart.rollouts, proven=open_gate()) if apart else rollouts,
        writer=writer,
        engine=apart.engine if apart else None,
    )


def _engine_kind() -> str:
    kind, reason = pick_engine()
    if kind != "vllm":
        sys.stderr.write(f"lego: vLLM cannot run here ({reason}); sampling with the slow {kind} engine\n")
    return kind


def _print_to(log_file: Path) -> None:
    """File descriptors, not Python streams: children and native libraries print too."""
    with log_file.open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())


def _cancel_on_signals() -> None:
    """SIGINT and SIGTERM cancel the run's task: everything started is then stopped in order."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, task.cancel)


if __name__ == "__main__":
    sys.exit(main())
