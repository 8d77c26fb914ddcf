"""What a project's own tests do in a sandbox: which always pass, how long they take, and which functions they call.

Invariant: a test counts only if it passed in each of several runs under the same name, in the very runner that
grades; a project whose tests would run other, installed modules instead of its own is refused.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from lego_harness.errors import GraderError, SetupError, UsageError
from lego_harness.grading.contradict import function_of
from lego_harness.grading.toolchain import toolchain
from lego_harness.grading.trial import Job, Verdict, bounded, run_trial
from lego_harness.sandbox.base import WORKSPACE, Limits, Mount, Phase, SandboxBackend, SandboxSpec
from lego_harness.sandbox.workspace import write_files
from lego_harness.synthesis import calls
from lego_harness.synthesis.project import Project
from lego_harness.text import one_line

TESTS = "/grade/hidden"
"""Not `tests`: in a grading, the folder has no name by which a test could import itself."""
SUITE_S, WAIT_S = 300, 3600.0
"""CPU time of a whole suite, and how long it may take to get that on a busy machine."""
_RUNS = 2
_NONE_RAN = (
    "none ran, as where a conftest.py imports what is not there: tests have pytest and the standard library"
)
_LIMITS = Limits(output_bytes=16_000_000)
_SCRIPT, _TOOLCHAIN = "/grade/calls.py", "/grade/toolchain"


class _Told(BaseModel):
    """What `calls.py` prints."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    functions: list[tuple[str, int]]
    calls: dict[str, list[int]]
    installed: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """The tests of a project, as they are."""

    passing: Mapping[str, frozenset[str]]
    """Test file → node ids of its tests that always pass."""
    callers: Mapping[tuple[str, int], frozenset[str]]
    """Function, by path and first line → tests that call it: `file::function`, or a file if its set-up does."""
    seconds: Mapping[str, float]
    """Node id → how long it took, at most."""

    def reaching(self, function: tuple[str, int]) -> tuple[frozenset[str], float]:
        """Node ids of tests that always pass and call the function, and the time they take."""
        callers = self.callers[function]
        files = {caller.partition("::")[0] for caller in callers}
        nodes = (node for file in files for node in self.passing[file])
        found = frozenset(n for n in nodes if function_of(n) in callers or n.partition("::")[0] in callers)
        return found, sum(self.seconds.get(node, 0.0) for node in found)


@contextmanager
def tests_of(project: Project) -> Generator[Path]:
    """The project's folder of tests, to be mounted in sandboxes at TESTS."""
    with tempfile.TemporaryDirectory(prefix="lego-synthesis-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        write_files(folder, project.test_files())
        yield folder


async def covered(project: Project, backend: SandboxBackend, *, label: str) -> Coverage:
    """The project's tests run over the project; raises UsageError if nothing can be built on them."""
    with tests_of(project) as tests:
        told = await _calls(project, tests, backend, label)
        if told.installed:
            raise UsageError(
                f"{project.pin.name}: the sandbox's Python has {told.installed[0]} installed, an agent could read the "
                "repair there, and tests would run it"
            )
        verdicts = await _verdicts(project, tests, backend, label)
    passing = _passing(verdicts)
    return Coverage(passing=passing, callers=_callers(told, passing), seconds=_seconds(verdicts))


async def _calls(project: Project, tests: Path, backend: SandboxBackend, label: str) -> _Told:
    shown = ((calls.__file__, _SCRIPT), (toolchain(), _TOOLCHAIN), (tests, TESTS))
    mounts = tuple(Mount(source=Path(source), target=target) for source, target in shown)
    spec = SandboxSpec(phase=Phase.GRADE, files=project.files, label=label, mounts=mounts, limits=_LIMITS)
    argv = [*bounded(SUITE_S), "python3", "-s", "-B", _SCRIPT, _TOOLCHAIN, TESTS, *project.packages]
    async with backend.open(spec) as sandbox:
        ended = await sandbox.exec(argv, timeout_s=WAIT_S, cwd=WORKSPACE)
    try:
        return _Told.model_validate_json(ended.stdout)
    except ValidationError as error:
        last = one_line(ended.stderr, limit=200, keep="end") or f"exit {ended.exit_code}"
        raise UsageError(f"{project.pin.name}: its tests did not run to their end: {last}") from error


async def _verdicts(project: Project, tests: Path, backend: SandboxBackend, label: str) -> list[Verdict]:
    """Several runs, with some test that passes in all of them."""
    jobs = [Job(timeout_s=WAIT_S, tests=TESTS) for _ in range(_RUNS)]
    try:
        verdicts = await run_trial(
            backend, jobs, project.files, label=label, tests={TESTS: tests}, cpu_s=SUITE_S
        )
    except GraderError as error:
        raise SetupError(f"{project.pin.name}: {error}") from error
    said = one_line(next(iter(verdicts[0].messages.values()), _NONE_RAN), limit=200)
    for verdict in verdicts:
        if not verdict.is_sound:
            why = said if verdict.ending == "complete" else verdict.ending
            raise UsageError(f"{project.pin.name}: its tests cannot be judged: {why}")
    if not _passing(verdicts):
        raise UsageError(f"{project.pin.name}: none of its tests passes in the sandbox: {said}")
    return verdicts


def _passing(verdicts: Sequence[Verdict]) -> dict[str, frozenset[str]]:
    first, *others = verdicts
    found: dict[str, set[str]] = {}
    for node in sorted(first.tests):
        if all(verdict.tests.get(node) == "passed" for verdict in (first, *others)):
            found.setdefault(node.partition("::")[0], set()).add(node)
    return {file: frozenset(nodes) for file, nodes in found.items()}


def _seconds(verdicts: Sequence[Verdict]) -> dict[str, float]:
    return {n: max(v.durations_s.get(n, 0.0) for v in verdicts) for n in verdicts[0].durations_s}


def _callers(told: _Told, passing: Mapping[str, frozenset[str]]) -> dict[tuple[str, int], frozenset[str]]:
    """Only of tests that always pass."""
    known = {function_of(node) for nodes in passing.values() for node in nodes} | {*passing}
    found: dict[tuple[str, int], set[str]] = {}
    for test in sorted(known & {*told.calls}):
        for number in told.calls[test]:
            found.setdefault(told.functions[number], set()).add(test)
    return {function: frozenset(tests) for function, tests in found.items()}
