"""The `lego` command: what a person types.

Owns options and exit codes: 0 done, 2 usage, 3 infrastructure, 130 interrupted, else the core's or the
command's own. Invariants: no torch is imported here, and what a command needs is imported when it runs,
so that `lego` starts fast; an expected failure is one line on stderr, never a traceback.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lego_control import (
    auditing,
    importing,
    lifecycle,
    operate,
    redteam,
    sandboxes,
    selecting,
    synthesising,
    traffic,
    watching,
)
from lego_control.ci import commands as ci_commands
from lego_control.export import export
from lego_control.options import OVERRIDES, RUNS, SANDBOXES
from lego_control.plan import plan
from lego_control.report import command as report_command
from lego_control.tiny_harness import TINY_HARNESS
from lego_harness.errors import InfrastructureError, LegoError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

MAX_MESSAGE = 4000
SEED = click.option("--seed", type=click.IntRange(min=0), help="Seed of the run: tasks, policy and sampling.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    try:
        return (
            lego.main(args=None if argv is None else list(argv), prog_name="lego", standalone_mode=False) or 0
        )
    except click.Abort:
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except LegoError as error:
        return _fail(str(error), error.exit_code)
    except OSError as error:
        if error.filename is None:
            raise  # not a file that a person can look at: a fault of ours
        said = f"{os.fsdecode(error.filename)}: {error.strerror}; check that it exists and may be used"
        return _fail(said, InfrastructureError.exit_code)


def _fail(message: str, exit_code: int) -> int:
    from lego_tui.safe import one_line

    click.echo(f"lego: {one_line(message, MAX_MESSAGE)}", err=True)
    return exit_code


@click.group(
    commands=[
        *traffic.COMMANDS,
        *watching.COMMANDS,
        *ci_commands.COMMANDS,
        *sandboxes.COMMANDS,
        *lifecycle.COMMANDS,
        *operate.COMMANDS,
        *report_command.COMMANDS,
        export,
        plan,
        redteam.redteam,
    ],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="lego-rl")
def lego() -> None:
    """Reinforcement learning for coding agents, inside the harness they will be used in."""


@lego.command()
@click.option("--harness", type=TINY_HARNESS, help="The agent program.  [default: mini-swe-agent]")
@click.option("--sandbox", type=SANDBOXES, help="Sandbox backend.  [default: auto]")
@SEED
@OVERRIDES
def quickstart(harness: str | None, sandbox: str | None, seed: int | None, overrides: tuple[str, ...]) -> int:
    """Train a tiny policy on this machine until it visibly learns. Installs the agent program if necessary."""
    from lego_core.recipe_file import load_recipe

    chosen = {"harness.name": harness, "sandbox.backend": sandbox, "run.seed": seed}
    recipe, settings = _builtin_recipe("quickstart"), [*_settings(chosen), *overrides]
    _have_harness(load_recipe(recipe, settings).harness.name)
    return _start(recipe, settings)


def _have_harness(name: str) -> None:
    from lego_harness.adapters.install import install, pinned

    harness = pinned(name)
    if harness is not None and not harness.folder.is_dir():
        click.echo(f"installing {name} {harness.version} into {harness.folder}", err=True)
        install(harness)


@lego.command()
@click.argument("recipe", required=False, type=click.Path(path_type=Path))
@OVERRIDES
@SEED
@click.option(
    "--resume", "run", type=click.Path(path_type=Path), metavar="RUN", help="Continue an interrupted run."
)
@click.option("--detach", is_flag=True, help="Run in the background, independent of this terminal.")
@click.option(
    "--ray-address",
    metavar="HOST:PORT",
    help="Use an existing Ray cluster; auto finds the one of this machine.",
)
def train(
    recipe: Path | None,
    overrides: tuple[str, ...],
    seed: int | None,
    run: Path | None,
    detach: bool,
    ray_address: str | None,
) -> int:
    """Train with a RECIPE, or continue a run with --resume.

    Without a RECIPE, --resume takes --set for what may change in a run: learning rate, gradient clip and KL
    coefficient. A RECIPE given with --resume must be the run's own.
    """
    settings = [*_settings({"run.seed": seed}), *overrides]
    where = ["--ray-address", ray_address] if ray_address is not None else []
    if run is not None:
        return _resume(run, recipe, settings, detach, where)
    if recipe is None:
        raise UsageError("lego train got neither RECIPE nor --resume RUN, expected at least one")
    return _start(recipe, settings, detach, where)


@lego.command()
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--json", "for_programs", is_flag=True, help="One JSON object instead of a table.")
def show(run: Path | None, for_programs: bool) -> int:
    """Show a RUN: its steps, its held-out solve rate and its curve. Default: the newest run in ./runs."""
    from lego_control.show import as_json, draw
    from lego_core.store import RunReader, newest_run

    reader = RunReader(run or newest_run(RUNS))
    reader.info()
    if for_programs:
        click.echo(as_json(reader))
    else:
        draw(reader, _console())
    return 0


@lego.command("tiny-model")
@click.option("--harness", type=TINY_HARNESS, default="mini-swe-agent", show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for the checkpoint.  [default: the cache]"
)
@click.option(
    "--sandbox", type=SANDBOXES, default="auto", show_default=True, help="Where the harness is recorded."
)
def tiny_model(harness: str, seed: int, out: Path | None, sandbox: str) -> int:
    """Build the tiny policy that quickstart starts from, even if the cache has it."""
    from lego_control.supervisor import run_module

    where = ["--out", str(out)] if out else []
    chosen = ["--harness", harness, "--seed", str(seed), "--sandbox", sandbox, *where]
    return run_module("lego_core.tiny", ["--fresh", *chosen])


@lego.group(
    invoke_without_command=True,
    commands=[auditing.audit, importing.import_tasks, selecting.select, synthesising.synth],
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("tasks"),
    show_default=True,
    help="Folder of the pool.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--prove", is_flag=True, help="Prove each task: 0 if untouched, 1 with its solution.")
@click.option("--sandbox", type=SANDBOXES, default="auto", show_default=True, help="Where tasks are proven.")
@click.pass_context
def tasks(context: click.Context, out: Path, seed: int, prove: bool, sandbox: str) -> int:
    """Generate the repair tasks of quickstart, or make, import, audit or select a task pool."""
    if context.invoked_subcommand is not None:
        return 0
    from lego_control.pool import make_pool

    recipe = _builtin_recipe("quickstart")
    make_pool(recipe, out, seed=seed, prove_in=sandbox if prove else None, console=_console())
    return 0


def _settings(chosen: dict[str, Any]) -> list[str]:
    return [f"{key}={value}" for key, value in chosen.items() if value is not None]


def _flags(settings: Sequence[str]) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def _start(recipe: Path, settings: list[str], detach: bool = False, where: Sequence[str] = ()) -> int:
    from lego_core.recipe_file import load_recipe

    load_recipe(recipe, settings)  # a recipe that is wrong is refused at once, by us
    return _run(["--recipe", str(recipe), *_flags(settings), *where], detach)


def _resume(run: Path, recipe: Path | None, settings: list[str], detach: bool, where: Sequence[str]) -> int:
    from lego_core.changes import change
    from lego_core.recipe_file import load_recipe, recipe_changes
    from lego_core.store import RunReader

    holds = RunReader(run).recipe()
    if recipe is None:
        change(holds, settings)  # what may not change is refused at once, by us
        return _run(["--resume", str(run), *_flags(settings), *where], detach)
    if changes := recipe_changes(holds, load_recipe(recipe, settings)):
        raise UsageError(
            f"{run} keeps the recipe it was started with, and {recipe} differs in {'; '.join(changes)}; "
            "leave RECIPE out, or start a new run with it"
        )
    return _run(["--resume", str(run), *where], detach)


def _run(arguments: list[str], detach: bool) -> int:
    if not detach:
        from lego_control.supervisor import train as run_core

        return run_core(arguments, _console())
    from lego_control.detached import start
    from lego_core.store.mailbox import myself

    run = start(arguments, who=myself(), via="cli", why="lego train --detach")
    click.echo(f"{run} runs, detached\n  lego show {run}\n  lego stop {run} --why '…'")
    return 0


def _builtin_recipe(name: str) -> Path:
    """One of our recipes: next to the package in a clone, inside it in an installed wheel."""
    import lego_core

    package = Path(lego_core.__file__).parent
    for folder in (package.parent / "recipes", package / "recipes"):
        if (folder / f"{name}.toml").is_file():
            return folder / f"{name}.toml"
    raise UsageError(f"recipe {name}.toml is not in {package.parent / 'recipes'}; is the clone complete?")


def _console() -> Console:
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=120)
