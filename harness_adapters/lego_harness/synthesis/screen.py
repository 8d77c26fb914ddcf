"""Which faults make tasks: the project's tests, run over each faulty tree.

    faults of covered functions ─ seeded order ─▶ tests of the files that call the function ─▶ those that tell

Invariants: a fault is taken only where some tests of the files fail that always passed, most still pass, and at
least one that fails can be contradicted, so that a reward for its repair cannot be forged (`grading/contradict.py`);
the same seed and the same outcomes choose the same faults, however many sandboxes run at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A fault that tests tell."""

    fault: Fault
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
    left = candidates(project, coverage, seed=seed)[: size * _TRIES]
    found, tried = list[Found](), 0
    with tests_of(project) as tests:
        while left and len(found) < size:
            wave = [left[i : i + _BATCH] for i in range(0, _BATCH * jobs, _BATCH) if left[i : i + _BATCH]]
            left = left[_BATCH * jobs :]
            runs = [_verdicts(project, coverage, batch, tests, backend, label) for batch in wave]
            for batch, verdicts in zip(wave, await asyncio.gather(*runs), strict=True):
                for fault, verdict in zip(batch, verdicts, strict=True):
                    if len(found) < size:
                        tried += 1
                        one = _told(fault, verdict, coverage, project.test_files())
                        found += [one] if one else []
    return found, tried


def candidates(project: Project, coverage: Coverage, *, seed: int) -> list[Fault]:
    """Faults of functions that tests call, a few of each, in an order drawn by the seed."""
    rng = Random(f"{project.pin.name}/{project.pin.version}/{seed}")
    made = [
        fault
        for path in project.modules
        for fault in faults(path, project.files[path])
        if coverage.callers.get((path, fault.line)) and _is_only_copy(project, path)
    ]
    rng.shuffle(made)
    taken, chosen = Counter[tuple[str, int]](), list[Fault]()
    for fault in made:
        taken[fault.path, fault.line] += 1
        if taken[fault.path, fault.line] <= _PER_FUNCTION:
            chosen.append(fault)
    return chosen


def _is_only_copy(project: Project, path: str) -> bool:
    """Whether no other file of the archive is the same: an agent would copy the repair from there."""
    content = project.files[path]
    return not any(name != path and other == content for name, other in project.files.items())


async def _verdicts(
    project: Project,
    coverage: Coverage,
    batch: Sequence[Fault],
    tests: Path,
    backend: SandboxBackend,
    label: str,
) -> list[Verdict]:
    files, jobs = dict[str, bytes](), list[Job]()
    for number, fault in enumerate(batch):
        place = f".batch/{number}"
        files |= {f"{place}/{name}": data for name, data in project.files.items()}
        files[f"{place}/{fault.path}"] = fault.source
        select = tuple(sorted(coverage.callers[fault.path, fault.line]))
        jobs.append(Job(timeout_s=_PATIENCE_S, tests=TESTS, select=select, tree=f"{WORKSPACE}/{place}"))
    return await run_trial(backend, jobs, files, label=label, tests={TESTS: tests})


def _told(fault: Fault, verdict: Verdict, coverage: Coverage, tests: Mapping[str, bytes]) -> Found | None:
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
    return Found(fault=fault, fail_to_pass=failed, pass_to_pass=kept, messages=said)
