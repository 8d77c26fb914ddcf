"""What the trusted side knows of a task: the tree its reference solution makes, and the tests that pass there.

Invariant: the tests a reward depends on come from here, never from a tree the agent touched, so that
a test that disappears is a test that failed. Remembered by content in the cache folder.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from lego_harness.cache import cache_folder
from lego_harness.errors import GraderError, SetupError
from lego_harness.grading import runner
from lego_harness.grading.listed import FILE, Listed, listed_tests
from lego_harness.grading.patch import GradedTree, graded_tree
from lego_harness.grading.sealed import sealed_git
from lego_harness.grading.toolchain import toolchain
from lego_harness.grading.trial import TESTS, Job, Verdict, run_trial
from lego_harness.sandbox.base import Mount, Phase, SandboxBackend, SandboxSpec
from lego_harness.tasks.folder import tree_files, workspace_files
from lego_harness.tasks.set_up import set_up
from lego_harness.tasks.surroundings import surrounded
from lego_harness.text import one_line
from lego_harness.types import Task

_SOLVE_S = 120.0


class Expected(BaseModel):
    """The tests that decide a reward: all of them must pass. As SWE-bench calls them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fail_to_pass: tuple[str, ...]
    """Node ids that the untouched workspace fails and the reference solution passes."""
    pass_to_pass: tuple[str, ...]
    """Node ids that both pass; what the agent must not break."""

    @property
    def tests(self) -> tuple[str, ...]:
        return (*self.fail_to_pass, *self.pass_to_pass)


async def expected_tests(task: Task, backend: SandboxBackend, *, label: str) -> Expected:
    """What must pass, from the cache or from runs of both trees; raises GraderError."""
    known = remembered(task, backend)
    if known is None:
        listed_tests(task.tests)  # what is wrong with them needs no run
        reference = await solved_tree(task, backend, label=label)
        solved = await grade_tree(task, reference.files, backend, label=label)
        untouched = await prepared_tree(task, backend, label=label)
        before = await grade_tree(task, untouched, backend, label=label)
        known = judged(task, before, solved, reference.reverted)
        remember(task, backend, known)
    return known


async def grade_tree(
    task: Task, tree: Mapping[str, bytes], backend: SandboxBackend, *, label: str
) -> Verdict:
    """The hidden tests, as they are, over a tree of ours."""
    job = Job(timeout_s=task.verifier_timeout_s)
    tree = {**tree, **sealed_git(task.workspace)}
    (verdict,) = await run_trial(backend, [job], tree, label=label, tests={TESTS: task.tests}, task=task)
    return verdict


def judged(task: Task, untouched: Verdict, solved: Verdict, reverted: Sequence[str] = ()) -> Expected:
    """What both runs say; raises GraderError unless the reference passes all of its tests, or where the task
    lists them, those, and the untouched tree fails and passes as listed. `reverted` is what of the reference
    was not graded."""
    try:
        return _judged(task, untouched, solved)
    except GraderError as error:
        if not reverted:
            raise
        lost = one_line(", ".join(reverted), limit=300)
        raise GraderError(f"{error}; reverted of the reference, as of an agent's work: {lost}") from error


def _judged(task: Task, untouched: Verdict, solved: Verdict) -> Expected:
    if listed := listed_tests(task.tests):
        return _as_listed(task, listed, untouched, solved)
    passing = passing_tests(task, solved)
    before = untouched.tests if untouched.is_sound else {}
    kept = {test for test in passing if before.get(test) == "passed"}
    return Expected(
        fail_to_pass=tuple(test for test in passing if test not in kept),
        pass_to_pass=tuple(test for test in passing if test in kept),
    )


def _as_listed(task: Task, listed: Listed, untouched: Verdict, solved: Verdict) -> Expected:
    _require_sound(task, solved)
    fail, kept = listed.found_in(solved.tests)
    before = untouched.tests if untouched.is_sound else dict.fromkeys(kept, "passed")
    for names, verdict, wanted, tree in (
        ((*fail, *kept), solved.tests, True, "with the reference solution"),
        (fail, before, False, "before anything was repaired"),
        (kept, before, True, "before anything was repaired"),
    ):
        for name in names:
            if (verdict.get(name) == "passed") is not wanted:
                said = verdict.get(name, "did not run")
                raise GraderError(
                    f"task {task.id}: {name} {said} {tree}, expected {'a pass' if wanted else 'no pass'}, as "
                    f"{task.tests / FILE} lists it"
                )
    return Expected(fail_to_pass=fail, pass_to_pass=kept)


def _require_sound(task: Task, solved: Verdict) -> None:
    if not solved.is_sound:
        raise GraderError(f"task {task.id}: the reference solution cannot be judged: {solved.ending}")


async def solved_tree(task: Task, backend: SandboxBackend, *, label: str) -> GradedTree:
    """What is graded of the reference solution: as much as of an agent's work. Raises GraderError when it fails."""
    if not task.solution.is_file():
        raise GraderError(
            f"{task.solution}: grading needs the reference solution to know which tests must pass"
        )
    mount = Mount(source=task.solution.parent.resolve(), target="/solution")
    try:
        given = _given(task)
        spec = SandboxSpec(phase=Phase.SETUP, files=given, label=label, mounts=(mount,))
        async with backend.open(await surrounded(spec, task, is_setup=True)) as sandbox:
            left = await set_up(sandbox, task, given=given, then=Phase.GRADE)
            result = await sandbox.exec(["bash", f"/solution/{task.solution.name}"], timeout_s=_SOLVE_S)
            tree = await sandbox.export()
    except SetupError as error:
        raise GraderError(f"reference solution of {task.id}: {error}") from error
    if result.exit_code != 0:
        raise GraderError(
            f"{task.solution} ended with exit {result.exit_code}: {result.stderr.strip()[-300:]}"
        )
    return graded_tree(workspace_files(task) if left is None else left, tree)


async def prepared_tree(task: Task, backend: SandboxBackend, *, label: str) -> dict[str, bytes]:
    """The workspace as the agent gets it, after the task's set-up; raises GraderError."""
    if task.surroundings.setup is None:
        return workspace_files(task)
    try:
        given = _given(task)
        spec = SandboxSpec(phase=Phase.SETUP, files=given, label=label)
        async with backend.open(await surrounded(spec, task, is_setup=True)) as sandbox:
            return await set_up(sandbox, task, given=given, then=Phase.GRADE) or {}
    except SetupError as error:
        raise GraderError(f"set-up of {task.id}: {error}") from error


def _given(task: Task) -> dict[str, bytes]:
    """What set-up finds, for the agent as for the reference; raises SetupError."""
    return {**workspace_files(task), **sealed_git(task.workspace)}


def passing_tests(task: Task, verdict: Verdict) -> tuple[str, ...]:
    """The tests of a run over the reference tree; raises GraderError unless all of them pass."""
    bad = sorted(test for test, outcome in verdict.tests.items() if outcome not in ("passed", "skipped"))
    passed = tuple(sorted(test for test, outcome in verdict.tests.items() if outcome == "passed"))
    if not verdict.is_sound or bad or not passed:
        reason = verdict.ending if not verdict.is_sound else f"{bad[0]} fails" if bad else "no test passes"
        said = " ".join(list(verdict.messages.values())[:1])
        raise GraderError(
            f"task {task.id}: the reference solution does not pass its tests: {reason} {said}".rstrip()
        )
    return passed


def remembered(task: Task, backend: SandboxBackend) -> Expected | None:
    """The tests found earlier for this very content."""
    try:
        text = _memory(task, backend).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return Expected.model_validate_json(text)


def remember(task: Task, backend: SandboxBackend, expected: Expected) -> None:
    """Keep what a run over the reference tree found; written whole or not at all."""
    path = _memory(task, backend)
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}-{secrets.token_hex(4)}")
    scratch.write_text(expected.model_dump_json(), encoding="utf-8")
    scratch.rename(path)


def _memory(task: Task, backend: SandboxBackend) -> Path:
    return cache_folder() / "expected" / f"{content_key(task, backend)}.json"


def content_key(task: Task, backend: SandboxBackend) -> str:
    """Digest of all that decides a grading: the task's files, its commit and tag, the runner, the toolchain, the
    backend. Raises SetupError where the history cannot be sealed."""
    digest = hashlib.sha256(f"{backend.name}\0{toolchain().name}\0".encode())
    digest.update(Path(runner.__file__).read_bytes())
    for root in (task.workspace, task.tests, task.solution.parent):
        for name, content in tree_files(root).items():
            digest.update(f"{root.name}/{name}\0{len(content)}\0".encode() + content)
    for name, content in sealed_git(task.workspace).items():
        if name.startswith(".git/refs/"):  # packs of the same objects may differ
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
    digest.update(_digest_of_surroundings(task))
    return digest.hexdigest()[:32]


def _digest_of_surroundings(task: Task) -> bytes:
    """Nothing for a plain task. Packed files count by size and time: they may be large. Of a build context
    everything counts that an image is built from."""
    wanted = task.surroundings
    if wanted.is_plain:
        return b""
    said = [wanted.image or "", str(wanted.setup_network)]
    said += [f"{target} {file.stat().st_size} {file.stat().st_mtime_ns}" for target, file in wanted.packed]
    digest = hashlib.sha256(repr(said).encode())
    left_out = {file for _, file in wanted.packed}
    for path in (wanted.setup, *(sorted(wanted.context.rglob("*")) if wanted.context else ())):
        if path and path.is_file() and path not in left_out and not path.is_relative_to(task.workspace):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(task.path)}\0{len(content)}\0".encode() + content)
    return digest.digest()
