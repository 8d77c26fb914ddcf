"""`lego tasks audit`: which tasks of a pool can be trusted with rewards.

Owns options, display and exit codes: 0 when every task is sound, 1 when one is not, 143 when it was told to end. What is looked at is
`lego_harness.tasks.audit`'s.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lego_control.ending import run_to_its_end

if TYPE_CHECKING:
    from lego_harness.tasks.audit import Audit

SANDBOXES = click.Choice(["auto", "docker", "gvisor", "bubblewrap"])


@click.command()
@click.argument("pool", type=click.Path(path_type=Path))
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Gradings of each tree.",
)
@click.option("--sandbox", type=SANDBOXES, default="auto", show_default=True, help="Where tasks are graded.")
@click.option("--json", "for_programs", is_flag=True, help="One JSON object per task.")
def audit(pool: Path, repeat: int, sandbox: str, for_programs: bool) -> int:
    """Grade each task of POOL untouched and solved, again and again. Exit 1 if one is not sound."""
    return run_to_its_end(_audit(pool, repeat, sandbox, for_programs))


async def _audit(pool: Path, repeat: int, sandbox: str, for_programs: bool) -> int:
    from lego_harness.sandbox.choose import choose_backend
    from lego_harness.tasks.audit import audit as audited
    from lego_harness.tasks.folder import load_pool

    tasks, backend = load_pool(pool), choose_backend(sandbox)
    await backend.check()
    await backend.reap()
    num_bad = 0
    async for found in audited(tasks, backend, repeat=repeat, label=f"audit-{secrets.token_hex(4)}"):
        num_bad += bool(found.faults)
        click.echo(json.dumps(asdict(found)) if for_programs else _line(found))
    if not for_programs:
        click.echo(f"{len(tasks) - num_bad} of {len(tasks)} tasks are sound, {repeat} gradings of each tree")
    return int(num_bad > 0)


def _line(found: Audit) -> str:
    took = "      –" if found.grading_s is None else f"{found.grading_s:5.1f} s"
    return f"{'refused' if found.faults else 'sound':8} {found.task_id:30} {took}  {'; '.join(found.faults)}".rstrip()
