"""`lego tasks select`: a pool of the tasks that a policy solves sometimes, as measured in runs, or of certain kinds.

    tags; runs' trajectory indexes ─▶ solve rate per task ─▶ band, size ─▶ DIR/TASK…  and DIR/selection.json

A task that is always or never solved carries no advantage. Invariants: all held-out tasks stay, since a pool
chosen by its results measures nothing; every task of the old pool is in selection.json with its rate
and why it was kept or left out; the new folder appears completely or not at all. Samples nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lego_control.auditing import reviewed
from lego_control.finite import finite
from lego_harness.errors import UsageError
from lego_harness.output import whole_folder

if TYPE_CHECKING:
    from lego_core.store import RunReader
    from lego_harness.types import Task

SHARE = click.FloatRange(0, 1)
FILE = "selection.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What was measured about one task, and what follows from it."""

    task_id: str
    solved: int
    graded: int
    """Training rollouts with a grade, over all runs."""
    kept: bool
    reason: str

    @property
    def rate(self) -> float:
        return self.solved / self.graded if self.graded else 0.5


@click.command()
@click.argument("pool", type=click.Path(path_type=Path))
@click.option(
    "--run",
    "runs",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Run that measured the solve rates; repeatable. Without one, rates do not matter.",
)
@click.option(
    "--tag", "tags", multiple=True, help="Only tasks with this tag; repeatable, any of them counts."
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the new pool.")
@click.option("--low", type=SHARE, default=0.1, show_default=True, callback=finite, help="Lowest solve rate.")
@click.option(
    "--high", type=SHARE, default=0.9, show_default=True, callback=finite, help="Highest solve rate."
)
@click.option(
    "--size",
    type=click.IntRange(min=1),
    help="Most tasks to keep, those nearest to one half first.  [default: all]",
)
def select(
    pool: Path,
    runs: tuple[Path, ...],
    tags: tuple[str, ...],
    out: Path,
    low: float,
    high: float,
    size: int | None,
) -> int:
    """Make a pool of those training tasks of POOL that a policy solves sometimes. Held-out tasks all stay."""
    from lego_core.store import RunReader
    from lego_harness.tasks.folder import load_pool

    if low > high:
        raise UsageError(f"--low {low:g} is above --high {high:g}, expected a band")
    if not runs and not tags and size is None:
        raise UsageError("nothing to select by: expected --run, --tag or --size")
    tasks = load_pool(pool)
    measured = _measured(map(RunReader, runs)) if runs else None
    choices = chosen(tasks, measured, tags=tags, low=low, high=high, size=size, against=reviewed(runs))
    if not any(choice.kept for choice in choices if choice.reason != _HELDOUT):
        raise UsageError(f"no training task of {pool} is left: {_counts(choices)}; widen --low and --high")
    asked = {"pool": str(pool), "runs": [str(run) for run in runs], "tags": tags}
    asked |= {"low": low, "high": high, "size": size}
    _write(out, tasks, choices, asked)
    click.echo(f"{sum(choice.kept for choice in choices)} of {len(tasks)} tasks in {out}: {_counts(choices)}")
    return 0


_HELDOUT, _IN_BAND, _TAKEN = "held out", "in the band", "taken"
_KEPT = {_HELDOUT, _IN_BAND, _TAKEN}
"""Reasons to keep a task; all others are reasons to leave it out."""


def chosen(
    tasks: Sequence[Task],
    measured: dict[str, tuple[int, int]] | None,
    *,
    tags: Sequence[str],
    low: float,
    high: float,
    size: int | None,
    against: Mapping[str, str],
) -> list[Choice]:
    """A choice per task, in order. `measured` holds solved and graded rollouts by task, None if nothing was
    measured; `against` holds what people said about tasks that they want out."""
    choices: list[Choice] = []
    for task in tasks:
        solved, graded = (measured or {}).get(task.id, (0, 0))
        reason = _why_left(task, tags, is_excluded=task.id in against)
        if not reason:
            reason = _TAKEN if measured is None else _by_band(solved, graded, low, high)
        kept = reason in _KEPT
        choices.append(Choice(task_id=task.id, solved=solved, graded=graded, kept=kept, reason=reason))
    trained = [choice for choice in choices if choice.kept and choice.reason != _HELDOUT]
    nearest = sorted(trained, key=lambda choice: (abs(choice.rate - 0.5), _drawn(choice.task_id)))
    spare = {choice.task_id for choice in nearest[size:]} if size is not None else set[str]()
    return [
        replace(choice, kept=False, reason="beyond the size") if choice.task_id in spare else choice
        for choice in choices
    ]


def _drawn(task_id: str) -> bytes:
    """An order that is independent of names, so that a limited size takes tasks from all over the pool."""
    return hashlib.sha256(task_id.encode()).digest()


def _why_left(task: Task, tags: Sequence[str], *, is_excluded: bool) -> str:
    """What is known without a run; empty if nothing is."""
    if task.split == "heldout":
        return _HELDOUT
    if is_excluded:
        return "excluded in review"
    return "" if not tags or set(tags) & set(task.tags) else "has none of the tags"


def _by_band(solved: int, graded: int, low: float, high: float) -> str:
    if not graded:
        return "not measured"
    if solved / graded < low:
        return "solved too seldom"
    return "solved too often" if solved / graded > high else _IN_BAND


def _measured(readers: Iterable[RunReader]) -> dict[str, tuple[int, int]]:
    measured: dict[str, tuple[int, int]] = {}
    for reader in readers:
        reader.info()  # says what is wrong with a folder that is no run
        for entry in reader.trajectory_index():
            if entry.step is not None and entry.reward is not None:
                solved, graded = measured.get(entry.task, (0, 0))
                measured[entry.task] = (solved + (entry.reward >= 1.0), graded + 1)
    return measured


def _counts(choices: Sequence[Choice]) -> str:
    return ", ".join(
        f"{count} {reason}" for reason, count in Counter(c.reason for c in choices).most_common()
    )


def _write(out: Path, tasks: Sequence[Task], choices: Sequence[Choice], asked: Mapping[str, object]) -> None:
    from lego_harness.tasks.copying import copy_task

    with whole_folder(out) as unfinished:
        for task, choice in zip(tasks, choices, strict=True):
            if choice.kept:
                copy_task(task.path, unfinished)
        told = {**asked, "tasks": [asdict(choice) for choice in choices]}
        (unfinished / FILE).write_text(json.dumps(told, indent=1) + "\n")
