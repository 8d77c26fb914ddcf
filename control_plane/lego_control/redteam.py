"""`lego redteam`: scripted cheating agents against the sandbox and the grader, and a table like Table 6.

Owns options, display and exit codes: 0 when no cheat got through and the honest fix passed, 1 otherwise,
143 when it was told to end. No sandbox is left behind: not by a command that is told to end, and what a
killed one left is removed when the next begins. `lego_harness.redteam` defines what an attempt is.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lego_control.ending import run_to_its_end
from lego_control.options import SANDBOXES
from lego_harness.text import one_line

if TYPE_CHECKING:
    from lego_harness.redteam.cheat import Cheat
    from lego_harness.redteam.run import Attempt
    from lego_harness.redteam.table import Row
    from lego_harness.sandbox.base import SandboxBackend
    from lego_harness.types import Task


@click.command()
@click.option(
    "--tasks",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Task folders to attack.  [default: a small project with a history, and broken tasks]",
)
@click.option(
    "--sandbox", "--backend", type=SANDBOXES, default="auto", show_default=True, help="Sandbox backend."
)
@click.option(
    "--cheat", "names", multiple=True, metavar="NAME", help="Only this cheat; repeatable.  [default: all]"
)
@click.option("--undefended", is_flag=True, help="Also run without defences, and print both in one table.")
@click.option("--json", "for_programs", is_flag=True, help="One JSON object per attempt instead of a table.")
def redteam(
    tasks: Path | None, sandbox: str, names: tuple[str, ...], undefended: bool, for_programs: bool
) -> int:
    """Run scripted cheating agents through the real pipeline. Exit 1 if one gets through."""
    with tempfile.TemporaryDirectory(prefix="lego-redteam-") as scratch:
        pool, defects = _targets(tasks, Path(scratch))
        wanted = {} if names else defects
        return run_to_its_end(_run(pool, wanted, sandbox, _chosen(names), undefended, for_programs))


def _targets(folder: Path | None, scratch: Path) -> tuple[Sequence[Task], dict[tuple[str, str], Task]]:
    """Tasks to attack, and, if none were named, broken tasks by name and mode."""
    from lego_harness.redteam.target import DEFECTS, bad_task, good_task
    from lego_harness.tasks.folder import load_pool

    if folder is not None:
        return load_pool(folder), {}
    return [good_task(scratch)], {(name, DEFECTS[name][0]): bad_task(scratch, name) for name in DEFECTS}


def _chosen(names: Sequence[str]) -> Sequence[Cheat]:
    from lego_harness.errors import UsageError
    from lego_harness.redteam.cheat import all_cheats

    cheats = all_cheats()
    known = {cheat.name for cheat in cheats}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"cheat {unknown[0]!r}: expected one of {', '.join(sorted(known))}")
    return [cheat for cheat in cheats if not names or cheat.name in names]


async def _run(
    pool: Sequence[Task],
    defects: dict[tuple[str, str], Task],
    backend_name: str,
    cheats: Sequence[Cheat],
    undefended: bool,
    for_programs: bool,
) -> int:
    from lego_harness.redteam.run import attempts, defect_attempt
    from lego_harness.redteam.table import table
    from lego_harness.sandbox.choose import choose_backend

    backend = choose_backend(backend_name)
    await backend.check()
    await backend.reap()
    label = f"redteam-{secrets.token_hex(4)}"
    done: list[Attempt] = []

    def tell(attempt: Attempt) -> None:
        done.append(attempt)
        click.echo(json.dumps(asdict(attempt)) if for_programs else _line(attempt))

    async for attempt in attempts(cheats, pool, backend, label=label):
        tell(attempt)
    for (name, mode), task in defects.items():
        tell(await defect_attempt(name, mode, task, backend))
    fooled = await _fooled(pool, defects, backend, cheats, label) if undefended else {}
    if for_programs:
        click.echo(json.dumps({"table": [asdict(row) for row in table(done, fooled)]}))
    else:
        click.echo(_summary(done))
        for row in table(done, fooled):
            click.echo(_row(row))
    return int(any(attempt.result.is_bad for attempt in done))


async def _fooled(
    pool: Sequence[Task],
    defects: dict[tuple[str, str], Task],
    backend: SandboxBackend,
    cheats: Sequence[Cheat],
    label: str,
) -> dict[tuple[str, str], bool]:
    """By cheat and task, whether a grader without defences pays it; tasks that it cannot judge at all are left out."""
    from lego_harness.redteam.undefended import is_fooled, misjudges

    fooled: dict[tuple[str, str], bool] = {}
    for task in pool:
        if await misjudges(task, backend, label=label):
            click.echo(
                f"{one_line(task.id)}: without defences even the honest fix is misjudged, it is left out",
                err=True,
            )
            continue
        for cheat in cheats:
            fooled[cheat.name, task.id] = await is_fooled(cheat, task, backend, label=label)
    for (name, _), task in defects.items():
        fooled[name, task.id] = await misjudges(task, backend, label=label)
    return fooled


def _line(attempt: Attempt) -> str:
    kinds = ", ".join(dict.fromkeys(finding.kind.value for finding in attempt.findings))
    said = one_line(attempt.detail, limit=90) + (f"  [{kinds}]" if kinds else "")
    return f"{attempt.result.value:13} {attempt.cheat:24} {one_line(attempt.task):14} {attempt.seconds:5.1f} s  {said}"


def _row(row: Row) -> str:
    without = "–" if row.num_undefended is None else f"{row.num_undefended} of {row.num_probed}"
    counts = f"{row.num_through} of {row.num_cheats}, {row.num_flagged} flagged"
    return f"{row.mode:48} undefended {without:9} defended {counts:20} {row.defence}"


def _summary(done: Sequence[Attempt]) -> str:
    counts = Counter(attempt.result.value for attempt in done)
    return f"{len(done)} attempts: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
