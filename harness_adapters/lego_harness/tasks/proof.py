"""Every task is proven before use: untouched it scores 0, with its reference solution 1.

Both trees are ours, so several tasks share a sandbox: a fast path. Whatever fails there is tried again alone, and
that verdict counts; tasks with surroundings or a git history of their own always run alone. Invariants: as much of
the reference solution is graded as of an agent's work, so that a task that needs more is refused and does not end up
paying nobody; only proofs that hold are remembered, by content.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from lego_harness.cache import cache_folder
from lego_harness.errors import GraderError, SetupError
from lego_harness.grading.listed import listed_tests
from lego_harness.grading.patch import graded_tree
from lego_harness.grading.reference import (
    content_key,
    grade_tree,
    judged,
    prepared_tree,
    remember,
    solved_tree,
)
from lego_harness.grading.sealed import sealed_git
from lego_harness.grading.trial import Job, Verdict, run_trial
from lego_harness.sandbox.base import WORKSPACE, Phase, SandboxBackend, SandboxSpec
from lego_harness.tasks.folder import tree_files, workspace_files
from lego_harness.tasks.surroundings import require_room
from lego_harness.types import Task

_LEAST, _MOST = 4, 16
"""Tasks that share a sandbox: fewer are not worth its start, more keep too much in memory."""
_LABEL = "proof"
_SOLVE_S = 120
_SOLVE_ALL = f"""
mv /workspace/jobs /tmp/jobs && mkdir /tmp/out || exit 1
for job in /tmp/jobs/*; do
  find /workspace -mindepth 1 -delete
  cp -r "$job/repo/." /workspace
  (cd /workspace && timeout {_SOLVE_S} bash "$job/solution/solve.sh") </dev/null >/dev/null 2>&1 || continue
  cp -r /workspace "/tmp/out/${{job##*/}}"
done
find /workspace -mindepth 1 -delete
cp -r /tmp/out/. /workspace
"""
"""Leaves a folder per solved job; a job that failed leaves none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """Whether a task tells a repair from none."""

    task_id: str
    holds: bool
    reason: str = ""
    """Why it does not hold; empty when it does."""


async def prove(tasks: Sequence[Task], backend: SandboxBackend, *, concurrency: int = 2) -> list[Proof]:
    """A proof per task, in order. Raises GraderError when gradings cannot be carried out at all."""
    gate = asyncio.Semaphore(concurrency)

    async def one(batch: Sequence[Task]) -> list[Proof]:
        async with gate:
            return await _prove_batch(batch, backend)

    found = {task.id: proof for task in tasks if (proof := _misread(task))}
    proven = {task.id for task in tasks if task.id not in found and _memory(task, backend).is_file()}
    open_tasks = [task for task in tasks if task.id not in proven and task.id not in found]
    size = min(_MOST, max(_LEAST, ceil(len(open_tasks) / concurrency)))
    batches = [open_tasks[i : i + size] for i in range(0, len(open_tasks), size)]
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one(batch)) for batch in batches]
    found |= {proof.task_id: proof for batch in running for proof in batch.result()}
    return [found.get(task.id) or Proof(task_id=task.id, holds=True) for task in tasks]


def _misread(task: Task) -> Proof | None:
    """Faults in a task's test lists, history or size, which need no run to be found."""
    try:
        listed_tests(task.tests)
        sealed_git(task.workspace)
        require_room(task)
    except (GraderError, SetupError) as error:
        return Proof(task_id=task.id, holds=False, reason=str(error))
    return None


async def _prove_batch(tasks: Sequence[Task], backend: SandboxBackend) -> list[Proof]:
    plain = [task for task in tasks if task.surroundings.is_plain and not (task.workspace / ".git").exists()]
    solved = await _solve_batch(plain, backend) if plain else {}
    quick = [task for task in tasks if task.id in solved]
    verdicts = await _grade_batch(quick, solved, backend) if quick else {}
    proofs: list[Proof] = []
    for task in tasks:
        proof = _judge(task, *verdicts[task.id], backend) if task.id in verdicts else None
        if proof is None or not proof.holds:
            proof = await _prove_alone(task, backend)
        if proof.holds:
            _memory(task, backend).parent.mkdir(parents=True, exist_ok=True)
            _memory(task, backend).touch()
        proofs.append(proof)
    return proofs


async def _prove_alone(task: Task, backend: SandboxBackend) -> Proof:
    if not task.solution.is_file():
        return Proof(task_id=task.id, holds=False, reason=f"{task.solution} is missing")
    try:
        untouched = await prepared_tree(task, backend, label=_LABEL)
        solved = await solved_tree(task, backend, label=_LABEL)
    except GraderError as error:
        return Proof(task_id=task.id, holds=False, reason=str(error))
    verdicts = [await grade_tree(task, tree, backend, label=_LABEL) for tree in (untouched, solved.files)]
    return _judge(task, verdicts[0], verdicts[1], backend, solved.reverted)


def _judge(
    task: Task, untouched: Verdict, solved: Verdict, backend: SandboxBackend, reverted: Sequence[str] = ()
) -> Proof:
    try:
        expected = judged(task, untouched, solved, reverted)
    except GraderError as error:
        return Proof(task_id=task.id, holds=False, reason=str(error))
    if untouched.is_sound and not expected.fail_to_pass:
        return Proof(task_id=task.id, holds=False, reason="its tests pass before anything was repaired")
    remember(task, backend, expected)
    return Proof(task_id=task.id, holds=True)


async def _solve_batch(tasks: Sequence[Task], backend: SandboxBackend) -> dict[str, dict[str, bytes]]:
    """Reference trees by task id, for tasks whose solution ended well."""
    files: dict[str, bytes] = {}
    for index, task in enumerate(tasks):
        files |= _below(f"jobs/{index:04d}/repo", workspace_files(task))
        files |= _below(f"jobs/{index:04d}/solution", tree_files(task.solution.parent))
    spec = SandboxSpec(phase=Phase.SETUP, files=files, label=_LABEL)
    try:
        async with backend.open(spec) as sandbox:
            await sandbox.exec(["bash", "-c", _SOLVE_ALL], timeout_s=_SOLVE_S * len(tasks), cwd="/")
            out = await sandbox.export()
    except SetupError as error:
        raise GraderError(f"proving tasks: {error}") from error
    trees = ((task, _above(f"{index:04d}/", out)) for index, task in enumerate(tasks))
    return {task.id: graded_tree(workspace_files(task), tree).files for task, tree in trees if tree}


async def _grade_batch(
    tasks: Sequence[Task], solved: Mapping[str, Mapping[str, bytes]], backend: SandboxBackend
) -> dict[str, tuple[Verdict, Verdict]]:
    """Verdicts over the untouched and the solved tree by task id."""
    files: dict[str, bytes] = {}
    jobs: list[Job] = []
    for index, task in enumerate(tasks):
        here = f".batch/{index:04d}"
        trees = {"untouched": workspace_files(task), "solved": solved[task.id]}
        files |= _below(f"{here}/tests", tree_files(task.tests))
        for name, tree in trees.items():
            files |= _below(f"{here}/{name}", tree)
            folder = f"{WORKSPACE}/{here}"
            jobs.append(
                Job(timeout_s=task.verifier_timeout_s, tests=f"{folder}/tests", tree=f"{folder}/{name}")
            )
    verdicts = await run_trial(backend, jobs, files, label=_LABEL, tests={})
    return {task.id: (verdicts[2 * i], verdicts[2 * i + 1]) for i, task in enumerate(tasks)}


def _below(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for name, content in files.items()}


def _above(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name.removeprefix(folder): content for name, content in files.items() if name.startswith(folder)}


def _memory(task: Task, backend: SandboxBackend) -> Path:
    return cache_folder() / "proven" / content_key(task, backend)
