"""`lego tasks audit`: which tasks of a pool can be trusted with rewards, and a pool of those.

Owns options, display and exit codes: 0 when every task is sound, 1 when one is not, 143 when it was told to end.
`lego_harness.tasks.audit` does the looking. Invariant: with --out no task is left out without its reason in
audit.json, and a command that ended early continues after its last task when it is run again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lego_control.ending import run_to_its_end
from lego_control.options import SANDBOXES
from lego_harness.output import resumed_folder
from lego_harness.text import one_line

if TYPE_CHECKING:
    from lego_control.audit_table import Table
    from lego_harness.sandbox.base import SandboxBackend
    from lego_harness.tasks.audit import Audit
    from lego_harness.types import Task


@click.command()
@click.argument("pool", type=click.Path(path_type=Path))
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="How often each tree is graded.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Tasks audited at a time.",
)
@click.option("--sandbox", type=SANDBOXES, default="auto", show_default=True, help="Where tasks are graded.")
@click.option(
    "--run",
    "runs",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A run over POOL whose lego review labels count as well; repeatable.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder of a new pool with the sound tasks only."
)
@click.option("--json", "for_programs", is_flag=True, help="One JSON object per task.")
def audit(
    pool: Path,
    repeat: int,
    jobs: int,
    sandbox: str,
    runs: tuple[Path, ...],
    out: Path | None,
    for_programs: bool,
) -> int:
    """Grade each task of POOL several times, untouched and solved. Exit 1 if a task is not sound.

    With --out the sound tasks become a new pool, whose audit.json says why the others were left out. If the command
    was interrupted, the same command continues where it stopped.
    """
    from lego_control.audit_table import Table
    from lego_harness.sandbox.choose import choose_backend
    from lego_harness.tasks.folder import load_pool

    tasks, backend = load_pool(pool), choose_backend(sandbox)
    asked, against = Table(pool=str(pool), repeat=repeat, sandbox=backend.name), reviewed(runs)
    with resumed_folder(out) if out else nullcontext() as folder:
        code = run_to_its_end(_audit(tasks, backend, asked, jobs, against, folder, for_programs))
        if code > 1:
            raise SystemExit(code)
    return code


def reviewed(runs: Iterable[Path]) -> dict[str, str]:
    """Task → why a person who looked at these runs wants it out of the pool. Raises UsageError for a folder that is
    not a run."""
    from lego_core.store import RunReader
    from lego_core.store.labels import read_labels, spoken_against

    said: dict[str, str] = {}
    for run in runs:
        RunReader(run).info()  # says what is wrong with a folder that is no run
        said |= spoken_against(read_labels(run))
    return said


async def _audit(
    tasks: Sequence[Task],
    backend: SandboxBackend,
    table: Table,
    jobs: int,
    against: Mapping[str, str],
    folder: Path | None,
    for_programs: bool,
) -> int:
    from lego_control.audit_table import FILE, copy_sound
    from lego_control.begun import begun, keep
    from lego_harness.tasks.audit import audit as audited

    table = begun(folder / FILE, table) if folder else table
    await backend.check()
    await backend.reap()
    label, done = f"audit-{secrets.token_hex(4)}", {one.task_id for one in table.tasks}
    async for found in audited(tasks, backend, repeat=table.repeat, label=label, jobs=jobs, done=done):
        table = table.model_copy(update={"tasks": (*table.tasks, found)})
        if folder:
            keep(folder / FILE, table)
        (found,) = with_review([found], against)
        click.echo(json.dumps(asdict(found)) if for_programs else _line(found))
    audits = with_review(table.tasks, against)
    if folder:
        keep(folder / FILE, table.model_copy(update={"tasks": audits}))
        copy_sound(tasks, audits, folder)
    num_bad = sum(bool(one.faults) for one in audits)
    if not for_programs:
        click.echo(
            f"{len(tasks) - num_bad} of {len(tasks)} tasks are sound, {table.repeat} gradings of each tree"
        )
    return int(num_bad > 0)


def with_review(audits: Sequence[Audit], against: Mapping[str, str]) -> tuple[Audit, ...]:
    """What was found, and what people said about tasks that they want out."""
    return tuple(
        replace(one, faults=(*one.faults, against[one.task_id])) if one.task_id in against else one
        for one in audits
    )


def _line(found: Audit) -> str:
    took = "      –" if found.grading_s is None else f"{found.grading_s:5.1f} s"
    said = one_line("; ".join(found.faults), limit=2000)
    return f"{'refused' if found.faults else 'sound':8} {one_line(found.task_id):30} {took}  {said}".rstrip()
