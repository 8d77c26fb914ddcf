"""From an agent's exported files to a Grade, in a sandbox the agent never saw.

    exported ─ graded_tree ─▶ fresh GRADE sandbox + opposed tests ─ run_trial ─▶ Ruling ─▶ Grade

Invariant (laws 5 and 6): reward 1 only when every expected test passed in a sound trial, no test passed
together with its contradiction, and that was no guess; whatever the agent's code did to its own grading is reward 0;
a grading that we could not carry out is a GraderError, never a number.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from lego_harness.errors import GraderError
from lego_harness.grading.contradict import Dice, contradictable, delegating, function_of, with_an_end
from lego_harness.grading.findings import grading_findings
from lego_harness.grading.opposed import MAX_FUNCTIONS, Opposed, Ruling, opposed
from lego_harness.grading.patch import GradedTree, graded_tree, has_more_folders, make_patch, printable
from lego_harness.grading.reference import Expected, expected_tests, grade_tree, solved_tree
from lego_harness.grading.sealed import sealed_git
from lego_harness.grading.trial import KILLED, STARVED, Verdict, run_trial
from lego_harness.sandbox.base import MAX_EXPORT_BYTES, MAX_EXPORT_FILES, SandboxBackend
from lego_harness.tasks.folder import tree_files, workspace_files
from lego_harness.types import Grade, Task

__all__ = ["Grader", "make_patch"]

_MAX_DETAIL = 2_000
_COINS = 4
"""Each part of a test is contradicted in one copy by the toss of a coin: whoever forges has to call as many right.
More would cost honest work more gradings than it is worth."""


class Grader:
    """Grades exported workspaces with one sandbox backend."""

    def __init__(self, backend: SandboxBackend, *, label: str) -> None:
        self._backend = backend
        self._label = label
        self._fitness: dict[Path, dict[str, bool]] = {}
        """By task and test function that was once in doubt: whether it may be contradicted and run alone. By what
        it gives a helper, and whether that tells anything, under `_delegated` names."""

    async def grade(
        self, task: Task, exported: Mapping[str, bytes], *, before: Mapping[str, bytes] | None = None
    ) -> Grade:
        """The verdict over what `Sandbox.export` returned; raises GraderError.

        `before` is what the agent was given, where a set-up had prepared it: what that left is no change of
        the agent's, test-side files included.
        """
        started = time.monotonic()
        if _is_oversized(exported):
            detail = f"the workspace exceeds {MAX_EXPORT_FILES} files or folders, or {MAX_EXPORT_BYTES} bytes"
            return Grade(reward=0.0, tests={}, duration_s=0.0, detail=detail)
        expected = await expected_tests(task, self._backend, label=self._label)
        given = workspace_files(task) if before is None else before
        tree = await asyncio.to_thread(graded_tree, given, exported)
        dice = Dice()
        ruling = await self._ruling(task, expected, tree, dice)
        ruling = await self._confirmed(task, expected, tree, ruling, dice)
        return make_grade(expected.tests, ruling, tree, duration_s=time.monotonic() - started)

    async def _confirmed(
        self, task: Task, expected: Expected, tree: GradedTree, ruling: Ruling, dice: Dice
    ) -> Ruling:
        """The ruling on work that passed, asked again where a coin might have told what is genuine."""
        if not ruling.gives(expected.tests):
            return ruling
        parts = sum([*self._groups(task, expected)[0][0].values()][:MAX_FUNCTIONS])
        for _ in range(-(-_COINS // parts) - 1 if parts else 0):
            other = await self._ruling(task, expected, tree, dice, again=True)
            if not other.verdict.is_sound:
                return other
            tests = {**ruling.verdict.tests, **other.verdict.tests}
            ruling = Ruling(verdict=ruling.verdict.model_copy(update={"tests": tests}), held=other.held)
            if not ruling.gives(expected.tests):
                return ruling
        return ruling

    def _groups(self, task: Task, expected: Expected) -> tuple[list[dict[str, int]], set[str]]:
        """Functions that can be contradicted, with their parts: those that fail untouched, and the others. And which
        of them by what they give a helper."""
        files, decisive = tree_files(task.tests), expected.fail_to_pass
        known = self._fitness.setdefault(task.path, {})
        delegated = {name for name in delegating(files, decisive) if known.get(_delegated(name), True)}
        ends = {name: parts for name, parts in with_an_end(files, decisive).items() if known.get(name, True)}
        direct, kept = (
            {name: parts for name, parts in contradictable(files, nodes).items() if known.get(name, True)}
            for nodes in (decisive, expected.pass_to_pass)
        )
        return [{**direct, **ends, **dict.fromkeys(delegated, 1)}, kept], delegated

    async def _ruling(
        self, task: Task, expected: Expected, tree: GradedTree, dice: Dice, *, again: bool = False
    ) -> Ruling:
        """One draw, and others where it was none; `again` of nothing but what fails untouched."""
        known, (groups, delegated) = self._fitness.setdefault(task.path, {}), self._groups(task, expected)
        asked = groups[:1] if again else groups
        with opposed(task.tests, *asked, dice=dice, delegated=delegated) as pair:
            ruling = await self._try(task, pair, tree.files, again=again)
            if ruling.verdict.ending in (
                KILLED,
                STARVED,
            ):  # by the code under test, or by bad luck: once more tells
                ruling = await self._try(task, pair, tree.files, again=again)
            if ruling.verdict.ending == STARVED:
                raise GraderError(f"task {task.id}: {STARVED}, twice: run fewer rollouts at a time")
            wanted = [node for node in expected.tests if not again or function_of(node) in pair.flips]
            # Which of its statements is contradicted is drawn anew: that one was fit says nothing of the next.
            doubtful = {
                name: _delegated(name) if name in delegated else name
                for name in pair.doubtful(ruling, wanted, again=again)
            }
            doubtful = {n: key for n, key in doubtful.items() if n in ruling.held or key not in known}
            if doubtful:
                misfits = await self._misfits(task, pair, doubtful.keys(), again=again)
                known |= {key: misfits.get(name, True) for name, key in doubtful.items()}
        if all(known[key] for key in doubtful.values()):
            return ruling
        return await self._ruling(task, expected, tree, dice, again=again)  # without the misfits

    async def _try(self, task: Task, pair: Opposed, files: Mapping[str, bytes], *, again: bool) -> Ruling:
        jobs = pair.jobs(task.verifier_timeout_s, again=again)
        files = {**files, **sealed_git(task.workspace)}
        verdicts = await run_trial(
            self._backend, jobs, files, label=self._label, tests=pair.mounts, task=task
        )
        return pair.ruling(verdicts)

    async def _misfits(
        self, task: Task, pair: Opposed, doubtful: AbstractSet[str], *, again: bool
    ) -> dict[str, bool]:
        """Functions that tell nothing when they are contradicted or run alone: the reference stumbles too.

        Raises GraderError where the reference cannot be judged for another reason: nothing is given up for
        a machine that has too much to do.
        """
        if not task.solution.is_file():
            return {}
        solved = (await solved_tree(task, self._backend, label=self._label)).files
        ruling = await self._try(task, pair, solved, again=again)
        if not ruling.verdict.is_sound:
            alone = await grade_tree(task, solved, self._backend, label=self._label)
            if not alone.is_sound:
                raise GraderError(f"task {task.id}: its reference solution is not judged now: {alone.ending}")
            return dict.fromkeys(doubtful, False)
        failed = {function_of(node) for node, said in ruling.verdict.tests.items() if said != "passed"}
        return dict.fromkeys(doubtful & {*ruling.held, *failed}, False)


def _delegated(function: str) -> str:
    """What a function is remembered as where it is contradicted by what it gives a helper."""
    return f"{function}()"


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
    is_large = len(exported) > MAX_EXPORT_FILES or sum(map(len, exported.values())) > MAX_EXPORT_BYTES
    return is_large or has_more_folders(exported, MAX_EXPORT_FILES)
