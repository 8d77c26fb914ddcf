"""Which faults make tasks: the project's tests, run over each faulty tree.

    faults of covered functions ─ seeded order ─▶ tests of the files that call the function ─▶ those that tell

Invariants: a fault is taken only where some tests of the files fail that always passed, most still pass, and at
least one that fails can be contradicted, so that a reward for its repair cannot be forged (`grading/contradict.py`);
the same seed and the same outcomes choose the same faults, however many sandboxes run at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from lego_harness.grading.contradict import contradictable
from lego_harness.grading.trial import Job, Verdict, run_trial
from lego_harness.sandbox.base import WORKSPACE, SandboxBackend
from lego_harness.synthesis.coverage import TESTS, Coverage, tests_of
from lego_harness.synthesis.mutate import Fault, faults
from lego_harness.synthesis.project import Project

_BATCH = 6
"""Faults that share a sandbox."""
_PATIENCE_S = 30.0
"""A fault may never end; tests that need longer are no use for training."""
_MOST = 0.5
"""More failing tests than this share say only that something is broken."""
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


async def screened(
    project: Project,
    coverage: Coverage,
    backend: SandboxBackend,
    *,
    seed: int,
    size: int,
    jobs: int,
    label: str,
) -> tuple[list[Found], int]:
    """At most `size` faults that tests tell, and how many were tried; raises GraderError."""
    left = islice(candidates(project, coverage, seed=seed), size * _TRIES)
    found, tried = list[Found](), 0
    with tests_of(project) as tests:
        while len(found) < size and (wave := _batches(left, jobs)):
            runs = [_verdicts(project, coverage, batch, tests, backend, label) for batch in wave]
            for batch, verdicts in zip(wave, await asyncio.gather(*runs), strict=True):
                for (fault, source), verdict in zip(batch, verdicts, strict=True):
                    if len(found) < size:
                        tried += 1
                        one = _told(fault, source, verdict, coverage, project.test_files())
                        found += [one] if one else []
    return found, tried


def candidates(project: Project, coverage: Coverage, *, seed: int) -> Iterator[_Faulty]:
    """Faults, and their file with them, of functions that tests call, a few of each, in an order drawn by the seed."""
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
    """Whether no other file of the archive is the same: an agent would copy the repair from there."""
    content = project.files[path]
    return not any(name != path and other == content for name, other in project.files.items())


def _batches(faults: Iterator[_Faulty], count: int) -> list[list[_Faulty]]:
    """At most `count` that are not empty."""
    return [batch for _ in range(count) if (batch := list(islice(faults, _BATCH)))]


async def _verdicts(
    project: Project,
    coverage: Coverage,
    batch: Sequence[_Faulty],
    tests: Path,
    backend: SandboxBackend,
    label: str,
) -> list[Verdict]:
    files, jobs = dict[str, bytes](), list[Job]()
    for number, (fault, source) in enumerate(batch):
        place = f".batch/{number}"
        files |= {f"{place}/{name}": data for name, data in project.files.items()}
        files[f"{place}/{fault.path}"] = source
        select = tuple(sorted(coverage.callers[fault.path, fault.line]))
        jobs.append(Job(timeout_s=_PATIENCE_S, tests=TESTS, select=select, tree=f"{WORKSPACE}/{place}"))
    return await run_trial(backend, jobs, files, label=label, tests={TESTS: tests})


def _told(
    fault: Fault, source: bytes, verdict: Verdict, coverage: Coverage, tests: Mapping[str, bytes]
) -> Found | None:
    """What the tests told of a fault; None where it makes no task."""
    if not verdict.is_sound:
        return None
    called = coverage.callers[fault.path, fault.line]
    always = sorted(test for file in called for test in coverage.passing[file])
    failed = tuple(test for test in always if verdict.tests.get(test) != "passed")
    is_telling = 0 < len(failed) <= _MOST * len(always) and all(test in verdict.tests for test in always)
    if not is_telling or not contradictable(tests, failed):
        return None
    files = {test.partition("::")[0] for test in failed}
    kept = tuple(test for test in always if test.partition("::")[0] in files and test not in failed)
    said = {test: verdict.messages.get(test, "") for test in failed}
    return Found(fault=fault, source=source, fail_to_pass=failed, pass_to_pass=kept, messages=said)
