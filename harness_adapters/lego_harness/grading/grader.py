"""From an agent's exported files to a Grade, in a sandbox the agent never saw.

    exported ─ graded_tree ─▶ fresh GRADE sandbox + opposed tests ─ run_trial ─▶ Ruling ─▶ Grade

Invariant (laws 5 and 6): reward 1 only when every expected test passed in a sound trial and no test
passed together with its contradiction; whatever the agent's code did to its own grading is reward 0;
a grading that we could not carry out is a GraderError, never a number.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from lego_harness.errors import GraderError
from lego_harness.grading.contradict import contradictable, function_of, with_an_end
from lego_harness.grading.findings import grading_findings
from lego_harness.grading.opposed import Opposed, Ruling, opposed
from lego_harness.grading.patch import GradedTree, graded_tree, make_patch, printable
from lego_harness.grading.reference import Expected, expected_tests, grade_tree, solved_tree
from lego_harness.grading.sealed import sealed_git
from lego_harness.grading.trial import KILLED, Verdict, run_trial
from lego_harness.sandbox.base import MAX_EXPORT_BYTES, MAX_EXPORT_FILES, SandboxBackend
from lego_harness.tasks.folder import tree_files, workspace_files
from lego_harness.types import Grade, Task

__all__ = ["Grader", "make_patch"]

_MAX_DETAIL = 2_000


class Grader:
    """Grades exported workspaces with one sandbox backend."""

    def __init__(self, backend: SandboxBackend, *, label: str) -> None:
        self._backend = backend
        self._label = label
        self._fitness: dict[Path, dict[str, bool]] = {}
        """By task and test function that was once in doubt: whether it may be contradicted and run alone."""

    async def grade(
        self, task: Task, exported: Mapping[str, bytes], *, before: Mapping[str, bytes] | None = None
    ) -> Grade:
        """The verdict over what `Sandbox.export` returned; raises GraderError.

        `before` is what the agent was given, where a set-up had prepared it: what that left is no change of
        the agent's, test-side files included.
        """
        started = time.monotonic()
        if _is_oversized(exported):
            detail = f"the workspace exceeds {MAX_EXPORT_FILES} files or {MAX_EXPORT_BYTES} bytes"
            return Grade(reward=0.0, tests={}, duration_s=0.0, detail=detail)
        expected = await expected_tests(task, self._backend, label=self._label)
        given = workspace_files(task) if before is None else before
        tree = await asyncio.to_thread(graded_tree, given, exported)
        ruling = await self._ruling(task, expected, tree)
        return make_grade(expected.tests, ruling, tree, duration_s=time.monotonic() - started)

    async def _ruling(self, task: Task, expected: Expected, tree: GradedTree) -> Ruling:
        known = self._fitness.setdefault(task.path, {})
        files, decisive = tree_files(task.tests), expected.fail_to_pass
        found = (
            {**contradictable(files, decisive), **with_an_end(files, decisive)},
            contradictable(files, expected.pass_to_pass),
        )
        groups = [{name: parts for name, parts in group.items() if known.get(name, True)} for group in found]
        with opposed(task.tests, *groups) as pair:
            ruling = await self._try(task, pair, tree.files)
            if ruling.verdict.ending == KILLED:  # by the code under test, or by bad luck: once more tells
                ruling = await self._try(task, pair, tree.files)
            # Which of its statements is contradicted is drawn anew: that one was fit says nothing of the next.
            doubtful = {
                name
                for name in pair.doubtful(ruling, expected.tests)
                if name in ruling.held or name not in known
            }
            if doubtful:
                known |= dict.fromkeys(doubtful, True) | await self._misfits(task, pair, doubtful)
        if all(known.get(name, True) for name in doubtful):
            return ruling
        return await self._ruling(task, expected, tree)  # without the misfits

    async def _try(self, task: Task, pair: Opposed, files: Mapping[str, bytes]) -> Ruling:
        jobs = pair.jobs(task.verifier_timeout_s)
        files = {**files, **sealed_git(task.workspace)}
        verdicts = await run_trial(
            self._backend, jobs, files, label=self._label, tests=pair.mounts, task=task
        )
        return pair.ruling(verdicts)

    async def _misfits(self, task: Task, pair: Opposed, doubtful: AbstractSet[str]) -> dict[str, bool]:
        """Functions that tell nothing when they are contradicted or run alone: the reference stumbles too.

        Raises GraderError where the reference cannot be judged for another reason: nothing is given up for
        a machine that has too much to do.
        """
        if not task.solution.is_file():
            return {}
        solved = (await solved_tree(task, self._backend, label=self._label)).files
        ruling = await self._try(task, pair, solved)
        if not ruling.verdict.is_sound:
            alone = await grade_tree(task, solved, self._backend, label=self._label)
            if not alone.is_sound:
                raise GraderError(f"task {task.id}: its reference solution is not judged now: {alone.ending}")
            return dict.fromkeys(doubtful, False)
        failed = {function_of(node) for node, said in ruling.verdict.tests.items() if said != "passed"}
        return dict.fromkeys(doubtful & {*ruling.held, *failed}, False)


def make_grade(expected: tuple[str, ...], ruling: Ruling, tree: GradedTree, *, duration_s: float) -> Grade:
    """The Grade of one trial; tests that an unsound trial reported count as errors."""
    verdict = ruling.verdict
    tests = {test: _status(verdict, test) for test in expected}
    solved = bool(tests) and all(status == "passed" for status in tests.values())
    return Grade(
        reward=float(verdict.is_sound and solved and not ruling.held),
        tests=tests,
        duration_s=duration_s,
        detail=_detail(ruling, tree, tests)[:_MAX_DETAIL],
        durations_s={test: verdict.durations_s[test] for test in expected if test in verdict.durations_s},
        findings=grading_findings(ruling, tree.reverted),
    )


def _status(verdict: Verdict, test: str) -> str:
    outcome = verdict.tests.get(test, "missing")
    if not verdict.is_sound and outcome == "passed":
        return "error"
    return outcome if outcome in ("passed", "error", "missing") else "failed"


def _detail(ruling: Ruling, tree: GradedTree, tests: dict[str, str]) -> str:
    parts: list[str] = []
    verdict = ruling.verdict
    if verdict.ending != "complete":
        parts.append(f"not believed: {verdict.ending}")
    elif not verdict.is_sound:
        parts.append("not believed: tests that must fail passed")
    elif ruling.held:
        parts.append(f"not believed: {ruling.held[0]} passed together with its contradiction")
    if missing := sum(status == "missing" for status in tests.values()):
        parts.append(f"{missing} of {len(tests)} tests did not run")
    if tree.reverted:
        parts.append("reverted: " + ", ".join(tree.reverted[:20]))
    parts += [f"{test}: {message}" for test, message in list(verdict.messages.items())[:5]]
    return "; ".join(printable(part.replace("\n", " ")) for part in parts)


def _is_oversized(exported: Mapping[str, bytes]) -> bool:
    return len(exported) > MAX_EXPORT_FILES or sum(map(len, exported.values())) > MAX_EXPORT_BYTES
