"""From an agent's exported files to a Grade, in a sandbox the agent never saw.

    exported ─ graded_tree ─▶ fresh GRADE sandbox + hidden tests ─ run_trial ─▶ Verdict ─▶ Grade

Invariant (laws 5 and 6): reward 1 only when every expected test passed in a sound trial; whatever the
agent's code did to its own grading is reward 0; a grading that we could not carry out is a
GraderError, never a number.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from lego_harness.grading.patch import GradedTree, graded_tree, make_patch, printable
from lego_harness.grading.reference import expected_tests
from lego_harness.grading.trial import KILLED, Job, Verdict, run_trial
from lego_harness.sandbox.base import MAX_EXPORT_BYTES, MAX_EXPORT_FILES, SandboxBackend
from lego_harness.tasks.folder import workspace_files
from lego_harness.types import Grade, Task

__all__ = ["Grader", "make_patch"]

_MAX_DETAIL = 2_000


class Grader:
    """Grades exported workspaces with one sandbox backend."""

    def __init__(self, backend: SandboxBackend, *, label: str) -> None:
        self._backend = backend
        self._label = label

    async def grade(self, task: Task, exported: Mapping[str, bytes]) -> Grade:
        """The verdict over what `Sandbox.export` returned; raises GraderError."""
        started = time.monotonic()
        if _is_oversized(exported):
            detail = f"the workspace exceeds {MAX_EXPORT_FILES} files or {MAX_EXPORT_BYTES} bytes"
            return Grade(reward=0.0, tests={}, duration_s=0.0, detail=detail)
        expected = await expected_tests(task, self._backend, label=self._label)
        tree = graded_tree(workspace_files(task), exported)
        verdict = await self._try(task, tree.files)
        if verdict.ending == KILLED:  # by the code under test, or by bad luck: once more tells
            verdict = await self._try(task, tree.files)
        return make_grade(expected, verdict, tree, duration_s=time.monotonic() - started)

    async def _try(self, task: Task, files: Mapping[str, bytes]) -> Verdict:
        job = Job(timeout_s=task.verifier_timeout_s)
        (verdict,) = await run_trial(self._backend, [job], files, label=self._label, tests=task.tests)
        return verdict


def make_grade(expected: tuple[str, ...], verdict: Verdict, tree: GradedTree, *, duration_s: float) -> Grade:
    """The Grade of one trial; tests that an unsound trial reported count as errors."""
    tests = {test: _status(verdict, test) for test in expected}
    solved = bool(tests) and all(status == "passed" for status in tests.values())
    return Grade(
        reward=float(verdict.is_sound and solved),
        tests=tests,
        duration_s=duration_s,
        detail=_detail(verdict, tree, tests)[:_MAX_DETAIL],
    )


def _status(verdict: Verdict, test: str) -> str:
    outcome = verdict.tests.get(test, "missing")
    if not verdict.is_sound and outcome == "passed":
        return "error"
    return outcome if outcome in ("passed", "error", "missing") else "failed"


def _detail(verdict: Verdict, tree: GradedTree, tests: dict[str, str]) -> str:
    parts: list[str] = []
    if verdict.ending != "complete":
        parts.append(f"not believed: {verdict.ending}")
    elif not verdict.is_sound:
        parts.append("not believed: tests that must fail passed")
    if missing := sum(status == "missing" for status in tests.values()):
        parts.append(f"{missing} of {len(tests)} tests did not run")
    if tree.reverted:
        parts.append("reverted: " + ", ".join(tree.reverted[:20]))
    parts += [f"{test}: {message}" for test, message in list(verdict.messages.items())[:5]]
    return "; ".join(printable(part.replace("\n", " ")) for part in parts)


def _is_oversized(exported: Mapping[str, bytes]) -> bool:
    return len(exported) > MAX_EXPORT_FILES or sum(map(len, exported.values())) > MAX_EXPORT_BYTES
