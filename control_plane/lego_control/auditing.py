"""`lego tasks audit`: which tasks of a pool can be trusted with rewards.

Owns options, display and exit codes: 0 when every task is sound, 1 when one is not, 143 when it was told to end. What is looked at is
`lego_harness.tasks.audit`'s.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lego_control.ending import run_to_its_end
from lego_control.options import SANDBOXES
from lego_harness.text import one_line

if TYPE_CHECKING:
    from lego_harness.tasks.audit import Audit


@click.command()
@click.argument("pool", type=click.Path(path_type=Path))
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Gradings of each tree.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Tasks that are looked at at once.",
)
@click.option("--sandbox", type=SANDBOXES, default="auto", show_default=True, help="Where tasks are graded.")
@click.option(
    "--run",
    "runs",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A run over POOL: what people said in its lego review counts, too; repeatable.",
)
@click.option("--json", "for_programs", is_flag=True, help="One JSON object per task.")
def audit(
    pool: Path, repeat: int, jobs: int, sandbox: str, runs: tuple[Path, ...], for_programs: bool
) -> int:
    """Grade each task of POOL untouched and solved, again and again. Exit 1 if one is not sound."""
    return run_to_its_end(_audit(pool, repeat, jobs, sandbox, reviewed(runs), for_programs))


def reviewed(runs: Iterable[Path]) -> dict[str, str]:
    """Task → why a person who looked at these runs wants it out of the pool. Raises UsageError for no run."""
    from lego_core.store import RunReader
    from lego_core.store.labels import read_labels, spoken_against

    said: dict[str, str] = {}
    for run in runs:
        RunReader(run).info()  # says what is wrong with a folder that is no run
        said |= spoken_against(read_labels(run))
    return said


async def _audit(
    pool: Path, repeat: int, jobs: int, sandbox: str, said: Mapping[str, str], for_programs: bool
) -> int:
    from lego_harness.sandbox.choose import choose_backend
    from lego_harness.tasks.audit import audit as audited
    from lego_harness.tasks.folder import load_pool

    tasks, backend = load_pool(pool), choose_backend(sandbox)
    await backend.check()
    await backend.reap()
    num_bad = 0
    label = f"audit-{secrets.token_hex(4)}"
    async for found in audited(tasks, backend, repeat=repeat, label=label, jobs=jobs):
        if found.task_id in said:
            found = replace(found, faults=(*found.faults, said[found.task_id]))
        num_bad += bool(found.faults)
        click.echo(json.dumps(asdict(found)) if for_programs else _line(found))
    if not for_programs:
        click.echo(f"{len(tasks) - num_bad} of {len(tasks)} tasks are sound, {repeat} gradings of each tree")
    return int(num_bad > 0)


def _line(found: Audit) -> str:
    took = "      –" if found.grading_s is None else f"{found.grading_s:5.1f} s"
    said = one_line("; ".join(found.faults), limit=2000)
    return f"{'refused' if found.faults else 'sound':8} {one_line(found.task_id):30} {took}  {said}".rstrip()
