"""Which faults make tasks: the project's tests, run over each faulty tree.

    faults of covered functions ─ seeded order ─▶ tests that call the function ─▶ those that reveal it

Invariants: a fault is taken only if some tests fail that always passed, most tests of their files still pass, and at
least one that fails can be contradicted, so that a reward for its repair cannot be forged (`grading/contradict.py`).
The same seed and the same outcomes choose the same faults, however many sandboxes run at once. That the other tests
of these files pass is presumed: the proof of the task runs all of them.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil
from pathlib import Path
from random import Random

from lego_harness.grading.contradict import contradictable, function_of
from lego_harness.grading.trial import Job, Verdict, run_trial
from lego_harness.sandbox.base import WORKSPACE, SandboxBackend
from lego_harness.synthesis.coverage import TESTS, WAIT_S, Coverage, tests_of
from lego_harness.synthesis.mutate import Fault, faults
from lego_harness.synthesis.project import Project

_BATCH = 6
"""Faults that share a sandbox."""
_LEAST_S, _SLOWER, _MOST_S = 5, 10, 30
"""A faulty program may never end: limit on its tests' CPU time, a multiple of what they take without the fault. Not
wall time, so that a busy machine does not influence which faults are chosen."""
_MOST = 0.5
"""A larger share of failing tests says only that something is broken."""
_PER_FUNCTION = 2
_TRIES = 8
"""Faults tried per task that is wanted."""

_Faulty = tuple[Fault, bytes]
"""A fault, and its file with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A fault that tests tell."""

    fault: Fault
    source: bytes
    """Of the faulty file."""
    fail_to_pass: tuple[str, ...]
    """Node ids below the project's folder of tests."""
    pass_to_pass: tuple[str, ...]
    """Of the same files."""
    messages: Mapping[str, str]
    """What failing tests said."""

    @property
    def test_files(self) -> frozenset[str]:
        return frozenset(test.partition("::")[0] for test in self.fail_to_pass)


class Screen:
    """The faults of a project one after another, each with what its tests showed."""

    def __init__(
        self,
        project: Project,
        coverage: Coverage,
        backend: SandboxBackend,
        *,
        seed: int,
        size: int,
        jobs: int,
        label: str,
    ) -> None:
        self._project, self._coverage = project, coverage
        self._backend, self._jobs, self._label = backend, jobs, label
        self._left = islice(candidates(project, coverage, seed=seed), size * _TRIES)
        self._told = deque[Found | str]()
        self.num_tried = 0
        self.rejected = Counter[str]()
        """Faults that were left, by reason."""

    async def take(self, count: int) -> list[Found]:
        """The next faults that tests reveal, at most `count`; fewer if there are no more to try. Raises GraderError."""
        found: list[Found] = []
        while len(found) < count and (self._told or await self._run(count - len(found))):
            one = self._told.popleft()
            self.num_tried += 1
            if isinstance(one, Found):
                found.append(one)
            else:
                self.rejected[one] += 1
        return found

    async def _run(self, count: int) -> bool:
        """Run the tests over the next few faults; returns whether there were any."""
        batches = _batches(self._left, self._jobs, min(count, _BATCH))
        with tests_of(self._project) as tests:
            runs = [self._verdicts(batch, tests) for batch in batches]
            for batch, verdicts in zip(batches, await asyncio.gather(*runs), strict=True):
                for (fault, source), verdict in zip(batch, verdicts, strict=True):
                    self._told.append(
                        _told(fault, source, verdict, self._coverage, self._project.test_files())
                    )
        return bool(batches)

    async def _verdicts(self, batch: Sequence[_Faulty], tests: Path) -> list[Verdict]:
        files, jobs, seconds = dict[str, bytes](), list[Job](), list[float]()
        for number, (fault, source) in enumerate(batch):
            place = f".batch/{number}"
            files |= {f"{place}/{name}": data for name, data in self._project.files.items()}
            files[f"{place}/{fault.path}"] = source
            reaching, needed_s = self._coverage.reaching((fault.path, fault.line))
            select = tuple(sorted({function_of(node) for node in reaching}))
            jobs.append(Job(timeout_s=WAIT_S, tests=TESTS, select=select, tree=f"{WORKSPACE}/{place}"))
            seconds.append(needed_s)
        cpu_s = _cpu_s(max(seconds))
        return await run_trial(
            self._backend, jobs, files, label=self._label, tests={TESTS: tests}, cpu_s=cpu_s
        )


def _cpu_s(seconds: float) -> int:
    return min(_MOST_S, _LEAST_S + ceil(_SLOWER * seconds))


def candidates(project: Project, coverage: Coverage, *, seed: int) -> Iterator[_Faulty]:
    """Faults of functions that tests call, each with its changed file; a few per function, in an order drawn by the
    seed."""
    rng = Random(f"{project.pin.name}/{project.pin.version}/{seed}")
    made = [
        fault
        for path in project.modules
        if _is_only_copy(project, path)
        for fault in faults(path, project.files[path])
        if coverage.callers.get((path, fault.line))
    ]
    rng.shuffle(made)
    taken = Counter[tuple[str, int]]()
    for fault in made:
        place = (fault.path, fault.line)
        if taken[place] < _PER_FUNCTION and (source := fault.applied(project.files[fault.path])):
            taken[place] += 1
            yield fault, source


def _is_only_copy(project: Project, path: str) -> bool:
    """Whether no other file of the archive is identical: an agent could copy the repair from there."""
    content = project.files[path]
    return not any(name != path and other == content for name, other in project.files.items())


def _batches(faults: Iterator[_Faulty], count: int, size: int) -> list[list[_Faulty]]:
    """At most `count` that are not empty."""
    return [batch for _ in range(count) if (batch := list(islice(faults, size)))]


def _told(
    fault: Fault, source: bytes, verdict: Verdict, coverage: Coverage, tests: Mapping[str, bytes]
) -> Found | str:
    """What the tests showed about a fault, or why it makes no task."""
    if not verdict.is_sound:
        return _ending(verdict)
    reaching, _ = coverage.reaching((fault.path, fault.line))
    failed = tuple(sorted(test for test in reaching if verdict.tests.get(test) != "passed"))
    files = {test.partition("::")[0] for test in reaching}
    if not failed:
        return "no test tells it"
    if not all(test in verdict.tests for test in reaching):
        return "some tests do not run with it"
    if len(failed) > _MOST * sum(len(coverage.passing[file]) for file in files):
        return "most tests fail with it"
    if not contradictable(tests, failed):
        return "a reward for its repair could be forged"
    telling = {test.partition("::")[0] for test in failed}
    kept = tuple(sorted(t for file in telling for t in coverage.passing[file] if t not in failed))
    said = {test: verdict.messages.get(test, "") for test in failed}
    return Found(fault=fault, source=source, fail_to_pass=failed, pass_to_pass=kept, messages=said)


def _ending(verdict: Verdict) -> str:
    if f"exit {-signal.SIGXCPU}" in verdict.ending:
        return "its tests do not end with it"
    if verdict.ending != "complete":
        return f"with it {verdict.ending}"
    return "tests that must fail pass with it" if verdict.tests else "its tests do not begin with it"
