"""`lego tasks synth`: a pool from real projects, and what became of each of them.

    PROJECT… ─ lego_harness.synthesis.build ─▶ DIR/PROJECT-000…  DIR/synth.json

Owns options, display and exit codes: 0 when every project gave tasks, 1 when one was refused, 143 when it was told
to end. Invariants: nothing is left out without its reason; the new folder appears whole or not at all.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lego_control.ending import run_to_its_end
from lego_control.options import SANDBOXES
from lego_harness.errors import UsageError
from lego_harness.output import whole_folder
from lego_harness.text import one_line

if TYPE_CHECKING:
    from lego_harness.synthesis.build import Built, Made
    from lego_harness.synthesis.project import Project

FILE = "synth.json"


@click.command()
@click.argument("projects", nargs=-1, metavar="[PROJECT]...")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the new pool.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Chooses the faults.")
@click.option(
    "--size",
    type=click.IntRange(min=1),
    default=18,
    show_default=True,
    help="At most so many tasks of a project.",
)
@click.option(
    "--heldout",
    multiple=True,
    metavar="PROJECT",
    help="A project none of whose tasks are trained on; repeatable.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Gradings of each tree in the audit; 0 leaves it at the proof.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Sandboxes at once.  [default: as many as there are cores]"
)
@click.option("--sandbox", type=SANDBOXES, default="auto", show_default=True, help="Where all of it runs.")
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
    """Make audited tasks of real projects: PROJECT is NAME==VERSION on the package index or a .tar.gz of one.

    Without PROJECT, of a catalogue of pinned ones. One task is one fault in a function that the project's own tests
    call; tests that tell of it are hidden and decide.
    """
    from lego_harness.synthesis.catalogue import CATALOGUE
    from lego_harness.synthesis.sdists import pinned

    wanted = {project: pinned(project).name for project in projects or CATALOGUE}
    if unknown := sorted({*heldout} - {*wanted.values()}):
        raise UsageError(f"--heldout {unknown[0]}: expected one of {', '.join(wanted.values())}")
    if twice := {name for name in wanted.values() if [*wanted.values()].count(name) > 1}:
        raise UsageError(f"project {min(twice)} is named twice, expected each once")
    told = {"seed": seed, "size": size, "repeat": repeat, "sandbox": sandbox, "heldout": heldout}
    splits = {said: "heldout" if name in heldout else "train" for said, name in wanted.items()}
    with whole_folder(out) as unfinished:
        many = jobs or os.cpu_count() or 1
        code = run_to_its_end(_synth(splits, unfinished, told, seed, size, repeat, many, sandbox))
        if code > 1:
            raise SystemExit(code)
    click.echo(f"{len([*out.glob('*/task.toml')])} tasks in {out}")
    return code


async def _synth(
    splits: dict[str, str],
    into: Path,
    told: Mapping[str, object],
    seed: int,
    size: int,
    repeat: int,
    jobs: int,
    sandbox: str,
) -> int:
    from lego_harness.sandbox.choose import choose_backend
    from lego_harness.synthesis.build import build

    backend, label = choose_backend(sandbox), f"synth-{secrets.token_hex(4)}"
    await backend.check()
    await backend.reap()
    found, refused = _read(splits)
    built: list[Built] = []
    for said, project in found.items():
        started, split = time.monotonic(), splits[said]
        try:
            one = await build(
                project,
                into,
                backend,
                split=split,
                seed=seed,
                size=size,
                repeat=repeat,
                jobs=jobs,
                label=label,
            )
        except UsageError as error:
            refused[said] = _refused(error)
            continue
        built.append(one)
        click.echo(_line(one, time.monotonic() - started))
    if not any(_sound(one.tasks) for one in built):
        raise UsageError(f"none of {len(splits)} projects gave a task, see above")
    table = {**told, "sandbox": backend.name, "projects": [asdict(one) for one in built], "refused": refused}
    (into / FILE).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    return int(bool(refused))


def _read(wanted: Iterable[str]) -> tuple[dict[str, Project], dict[str, str]]:
    """All projects before anything runs, and why some cannot be used: what cannot be fetched costs no hours."""
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


def _line(built: Built, seconds: float) -> str:
    sound, made = len(_sound(built.tasks)), len(built.tasks)
    lost = "".join(
        f"\n  left out {one.task}: {one_line('; '.join(one.faults))}" for one in built.tasks if one.faults
    )
    return (
        f"{built.project:14} {built.version:10} {sound:3} tasks sound of {made} made, {built.num_tried} faults tried; "
        f"{built.num_tests} tests call {built.num_functions} functions; {seconds:.0f} s{lost}"
    )
