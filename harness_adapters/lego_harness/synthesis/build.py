"""From a project to audited task folders, with a record of everything that happened on the way.

    Project ─ covered ─▶ Coverage ─ Screen ─▶ faults ─ write_task ─▶ folders ─ prove, audit ─▶ sound ones

Invariants: a task that stays in the pool is proven, and has earned 0 untouched and 1 with its solution in every
grading, by the same grader as in rollouts; everything else is reported with its reason, and another fault is tried
in its place.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lego_harness.sandbox.base import SandboxBackend
from lego_harness.synthesis.coverage import covered
from lego_harness.synthesis.project import Project
from lego_harness.synthesis.screen import Found, Screen
from lego_harness.synthesis.write import write_task
from lego_harness.tasks.audit import audit
from lego_harness.tasks.folder import load_task
from lego_harness.tasks.proof import prove
from lego_harness.types import Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """One fault that was made into a task."""

    task: str
    path: str
    function: str
    kind: str
    num_fail_to_pass: int
    num_pass_to_pass: int
    faults: tuple[str, ...]
    """Why its proof or its audit took it out again; empty if it stayed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """What became of one project."""

    project: str
    version: str
    sha256: str
    num_tests: int
    """That always pass."""
    num_functions: int
    """That they call."""
    num_tried: int
    """Faults that its tests were run over."""
    rejected: dict[str, int]
    """The faults among them that made no task, by reason."""
    seconds: float
    tasks: tuple[Made, ...]


async def build(
    project: Project,
    into: Path,
    backend: SandboxBackend,
    *,
    split: str,
    seed: int,
    size: int,
    repeat: int,
    jobs: int,
    label: str,
) -> Built:
    """At most `size` tasks of a project as folders below `into`; raises UsageError if the project cannot be used,
    InfrastructureError if something else failed."""
    started = time.monotonic()
    coverage = await covered(project, backend, label=label)
    screen = Screen(project, coverage, backend, seed=seed, size=size, jobs=jobs, label=label)
    made: list[Made] = []
    while found := await screen.take(size - sum(not one.faults for one in made)):
        named = {f"{project.pin.name}-{number:03}": one for number, one in enumerate(found, len(made))}
        for name, one in named.items():
            write_task(into / name, project, one, split=split)
        pool = [load_task(into / name) for name in named]
        wrong = await _found_wrong(pool, backend, repeat=repeat, jobs=jobs, label=label)
        for name in wrong:
            shutil.rmtree(into / name)
        made += [_made(name, one, wrong.get(name, ())) for name, one in named.items()]
    return Built(
        project=project.pin.name,
        version=project.pin.version,
        sha256=project.pin.sha256,
        num_tests=sum(map(len, coverage.passing.values())),
        num_functions=len(coverage.callers),
        num_tried=screen.num_tried,
        rejected=dict(screen.rejected),
        seconds=time.monotonic() - started,
        tasks=tuple(made),
    )


async def _found_wrong(
    pool: Sequence[Task], backend: SandboxBackend, *, repeat: int, jobs: int, label: str
) -> dict[str, tuple[str, ...]]:
    """Task → why it is left out. The quick proof comes first, then `repeat` gradings of each tree."""
    proofs = {proof.task_id: proof for proof in await prove(pool, backend, concurrency=jobs)}
    wrong = {name: (proof.reason,) for name, proof in proofs.items() if not proof.holds}
    left = [task for task in pool if task.id not in wrong and repeat]
    audits = audit(left, backend, repeat=repeat, label=label, jobs=jobs)
    return wrong | {each.task_id: each.faults async for each in audits if each.faults}


def _made(name: str, found: Found, faults: tuple[str, ...]) -> Made:
    return Made(
        task=name,
        path=found.fault.path,
        function=found.fault.function,
        kind=found.fault.kind,
        num_fail_to_pass=len(found.fail_to_pass),
        num_pass_to_pass=len(found.pass_to_pass),
        faults=faults,
    )
