"""Whether a pool's tasks can be trusted with rewards: graded repeatedly, as a run would grade them.

    untouched ─▶ 0, 0, 0      reference solution ─▶ 1, 1, 1      the same outcomes each time      no task twice

Invariant: every grading is the grader's own, contradictions included, so that a task that passes here behaves the same
in a rollout; only what the reference must pass is remembered from earlier runs. A fault is a reason to leave the task
out, never a reward. `proof.py` is the quick form that every run begins with.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from lego_harness.errors import GraderError, SetupError
from lego_harness.grading.grader import Grader
from lego_harness.grading.reference import prepared_tree, solved_tree
from lego_harness.sandbox.base import SandboxBackend
from lego_harness.tasks.folder import tree_files
from lego_harness.text import one_line
from lego_harness.types import Grade, Task

_MAX_FAULT = 1_000
"""Characters: what to do about a fault stands at its end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """What was found of one task."""

    task_id: str
    faults: tuple[str, ...]
    """Reasons to leave it out, one line each; empty if it is sound."""
    grading_s: float | None
    """Mean seconds of a grading; None if none was carried out."""


async def audit(
    tasks: Sequence[Task],
    backend: SandboxBackend,
    *,
    repeat: int,
    label: str,
    jobs: int = 1,
    done: AbstractSet[str] = frozenset(),
) -> AsyncIterator[Audit]:
    """An audit per task, in order, `jobs` at a time; `repeat` gradings of each tree. Tasks that are `done` are
    skipped."""
    grader, gate, first = Grader(backend, label=label), asyncio.Semaphore(jobs), dict[str, str]()

    async def one(task: Task, twin: str) -> Audit:
        if twin != task.id:
            return Audit(task_id=task.id, faults=(f"the same as {twin}",), grading_s=None)
        async with gate:
            return await _audit_one(task, grader, backend, repeat, label)

    twins = [first.setdefault(_content(task), task.id) for task in tasks]
    pairs = ((task, twin) for task, twin in zip(tasks, twins, strict=True) if task.id not in done)
    running = [asyncio.create_task(one(task, twin)) for task, twin in pairs]
    try:
        for each in running:
            yield await each
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _audit_one(task: Task, grader: Grader, backend: SandboxBackend, repeat: int, label: str) -> Audit:
    try:
        return await _graded(task, grader, backend, repeat, label)
    except (GraderError, SetupError) as error:  # the second: its git history cannot be sealed
        return Audit(task_id=task.id, faults=(one_line(str(error), limit=_MAX_FAULT),), grading_s=None)


async def _graded(task: Task, grader: Grader, backend: SandboxBackend, repeat: int, label: str) -> Audit:
    before = await prepared_tree(task, backend, label=label)
    trees: dict[str, tuple[float, Mapping[str, bytes]]] = {
        "untouched": (0.0, before),
        "the reference solution": (1.0, (await solved_tree(task, backend, label=label)).files),
    }
    faults, seconds = list[str](), list[float]()
    for name, (wanted, tree) in trees.items():
        grades = [await grader.grade(task, tree, before=before) for _ in range(repeat)]
        faults += _faults(name, wanted, grades)
        seconds += [grade.duration_s for grade in grades]
    return Audit(task_id=task.id, faults=tuple(faults), grading_s=sum(seconds) / len(seconds))


def _faults(name: str, wanted: float, grades: Sequence[Grade]) -> list[str]:
    faults: list[str] = []
    wrong = [grade for grade in grades if grade.reward != wanted]
    if wrong:
        said = f": {one_line(wrong[0].detail, limit=200)}" if wrong[0].detail else ""
        faults.append(
            f"{name} earned {wrong[0].reward:g} in {len(wrong)} of {len(grades)} gradings, expected {wanted:g}{said}"
        )
    unstable = {
        test for grade in grades for test in grade.tests if grade.tests[test] != grades[0].tests.get(test)
    }
    if unstable:
        faults.append(f"{name}: {min(unstable)} and {len(unstable) - 1} more differ between equal gradings")
    return faults


def _content(task: Task) -> str:
    """Digest of what an agent is given and of what its work is judged by, without names."""
    digest = hashlib.sha256(task.instruction.encode())
    for root in (task.workspace, task.tests):
        for name, content in tree_files(root).items():
            digest.update(f"{root.name}/{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
