"""`lego tasks synth`: a pool from real projects, and what became of each of them.

    PROJECT… ─ lego_harness.synthesis.build ─▶ DIR/PROJECT-000…  DIR/synth.json

Owns options, display and exit codes: 0 when every project gave tasks, 1 when one was refused, 143 when it was told
to end. Invariants: nothing is left out without its reason; the new folder appears completely or not at all; a command
that ended early continues after its last finished project when it is run again.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lego_control.ending import run_to_its_end
from lego_control.options import SANDBOXES
from lego_harness.errors import UsageError
from lego_harness.output import resumed_folder
from lego_harness.text import one_line

if TYPE_CHECKING:
    from lego_control.synth_table import Table
    from lego_harness.sandbox.base import SandboxBackend
    from lego_harness.synthesis.build import Built, Made
    from lego_harness.synthesis.project import Project


@click.command()
@click.argument("projects", nargs=-1, metavar="[PROJECT]...")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the new pool.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed that chooses the faults."
)
@click.option(
    "--size",
    type=click.IntRange(min=1),
    default=18,
    show_default=True,
    help="Most tasks per project.",
)
@click.option(
    "--heldout",
    multiple=True,
    metavar="PROJECT",
    help="A project whose tasks are all held out; repeatable.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="How often the audit grades each tree; 0 only proves tasks.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Sandboxes at a time.  [default: the number of cores]"
)
@click.option("--sandbox", type=SANDBOXES, default="auto", show_default=True, help="Where everything runs.")
def synth(
    projects: tuple[str, ...],
    out: Path,
    seed: int,
    size: int,
    heldout: tuple[str, ...],
    repeat: int,
    jobs: int | None,
    sandbox: str,
) -> int:
    """Make audited tasks from real projects. PROJECT is NAME==VERSION on the package index, or a .tar.gz.

    Without PROJECT, a catalogue of pinned projects is used. Each task is one fault in a function that the project's own
    tests call; the tests that notice it are hidden and decide the reward. If the command was interrupted, the same
    command continues where it stopped.
    """
    from lego_control.begun import begun
    from lego_control.synth_table import FILE, Table, clean
    from lego_harness.sandbox.choose import choose_backend
    from lego_harness.synthesis.catalogue import CATALOGUE
    from lego_harness.synthesis.sdists import pinned

    wanted = {project: pinned(project).name for project in projects or CATALOGUE}
    if unknown := sorted({*heldout} - {*wanted.values()}):
        raise UsageError(f"--heldout {unknown[0]}: expected one of {', '.join(wanted.values())}")
    if twice := {name for name in wanted.values() if [*wanted.values()].count(name) > 1}:
        raise UsageError(f"project {min(twice)} is named twice, expected each once")
    backend = choose_backend(sandbox)
    asked = Table(
        seed=seed, size=size, repeat=repeat, sandbox=backend.name, heldout=tuple(sorted({*heldout}))
    )
    with resumed_folder(out) as unfinished:
        table = begun(unfinished / FILE, asked)
        clean(unfinished, table)
        code = run_to_its_end(_synth([*wanted], unfinished, table, backend, jobs or os.cpu_count() or 1))
        if code > 1:
            raise SystemExit(code)
    click.echo(f"{len([*out.glob('*/task.toml')])} tasks in {out}")
    return code


async def _synth(wanted: Sequence[str], into: Path, table: Table, backend: SandboxBackend, jobs: int) -> int:
    from lego_control.begun import keep
    from lego_control.synth_table import FILE
    from lego_harness.synthesis.build import build

    await backend.check()
    await backend.reap()
    label = f"synth-{secrets.token_hex(4)}"
    found, refused = _read(wanted)
    for said, project in found.items():
        if table.done(project.pin):
            continue
        try:
            built = await build(
                project,
                into,
                backend,
                split="heldout" if project.pin.name in table.heldout else "train",
                seed=table.seed,
                size=table.size,
                repeat=table.repeat,
                jobs=jobs,
                label=label,
            )
        except UsageError as error:
            refused[said] = _refused(error)
            continue
        table = table.model_copy(update={"projects": (*table.projects, built)})
        keep(into / FILE, table)
        click.echo(_line(built))
    if not any(_sound(one.tasks) for one in table.projects):
        shutil.rmtree(into)
        raise UsageError(f"none of {len(wanted)} projects gave a task, see above")
    keep(into / FILE, table.model_copy(update={"refused": refused}))
    return int(bool(refused))


def _read(wanted: Iterable[str]) -> tuple[dict[str, Project], dict[str, str]]:
    """All projects, and why some cannot be used. This comes before anything runs, so that a failed download does
    not cost hours."""
    from lego_harness.synthesis.project import read_project

    found: dict[str, Project] = {}
    refused: dict[str, str] = {}
    for said in wanted:
        try:
            found[said] = read_project(said)
        except UsageError as error:
            refused[said] = _refused(error)
    return found, refused


def _refused(error: UsageError) -> str:
    click.echo(f"refused  {one_line(str(error), limit=1000)}")
    return str(error)


def _sound(tasks: Sequence[Made]) -> list[Made]:
    return [task for task in tasks if not task.faults]


def _line(built: Built) -> str:
    sound, made = len(_sound(built.tasks)), len(built.tasks)
    lost = "".join(
        f"\n  left out {one.task}: {one_line('; '.join(one.faults))}" for one in built.tasks if one.faults
    )
    return (
        f"{built.project:14} {built.version:10} {sound:3} tasks sound of {made} made, {built.num_tried} faults tried; "
        f"{built.num_tests} tests call {built.num_functions} functions; {built.seconds:.0f} s{lost}"
    )
