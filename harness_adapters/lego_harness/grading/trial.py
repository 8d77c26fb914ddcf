"""One trial: the runner over hidden tests in a fresh grading sandbox, and what it reported.

Owns the host side of the runner's protocol. Invariant: a `Verdict` is returned only when the runner
was alive before any code under test ran; everything that fails earlier is our failure and raises
GraderError, everything after it is charged to the code under test.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from lego_harness.errors import GraderError, SetupError
from lego_harness.grading import runner
from lego_harness.grading.toolchain import toolchain
from lego_harness.sandbox.base import (
    PYTHON,
    WORKSPACE,
    ExecResult,
    Limits,
    Mount,
    Phase,
    SandboxBackend,
    SandboxSpec,
)
from lego_harness.sandbox.workspace import checked_path
from lego_harness.tasks.surroundings import surrounded
from lego_harness.types import Task

TESTS = "/grade/tests"
KILLED = "the test runner was killed"
"""The ending of a trial whose runner started but never reported."""
STARVED = "the machine ran out of memory while the tests ran"
"""The ending of one that may have been cut short for that, whatever else its runner says."""
_RUNNER = "/grade/runner.py"
_TOOLCHAIN = "/grade/toolchain"
_ANY_PYTHON = f"""python=python3
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || python={PYTHON}/start
exec "$python" "$@\""""
"""The image's own Python, which has the packages of its tests; the mounted one where that is too old or none."""
_GRACE_S = 30.0
"""What set-up and reporting may take beside the tests themselves."""
_LIMITS = Limits(output_bytes=16_000_000)
_ENV = {
    "PYTHONHASHSEED": "0",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "TZ": "UTC",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One run of pytest; paths are those inside."""

    timeout_s: float
    tests: str = TESTS
    select: tuple[str, ...] = ()
    """Node ids below `tests` to run; every test file when empty."""
    workspace: str = WORKSPACE
    model: str = ""
    """Where `tests` is not there yet: the folder that it becomes a copy of, when the job begins, save for
    `changed`. No job before it can have seen what is in those."""
    changed: Mapping[str, str] = field(default_factory=dict[str, str])
    tree: str | None = None
    """Folder to replace the workspace's content with; only for batches of trusted trees."""


class Verdict(BaseModel):
    """What the runner reported for one job."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    tests: dict[str, str]
    """Node id relative to the tests folder → passed, failed, error, skipped or incomplete."""
    messages: dict[str, str]
    durations_s: dict[str, float] = {}
    """Seconds of set-up, call and tear-down by node id, as the runner told them."""
    canaries: int
    """How many of the must-fail canaries failed, as they must."""
    ending: str
    """`complete`, or what kept the report from being believed."""

    @property
    def is_sound(self) -> bool:
        return self.ending == "complete" and self.canaries == len(runner.CANARIES)


async def run_trial(
    backend: SandboxBackend,
    jobs: Sequence[Job],
    files: Mapping[str, bytes],
    *,
    label: str,
    tests: Mapping[str, Path],
    task: Task | None = None,
    cpu_s: int | None = None,
) -> list[Verdict]:
    """A verdict per job, from one fresh sandbox over `files` in the surroundings of `task`; raises GraderError.

    `tests` are the folders to show inside, by their path there. A job without a tree of its own gets
    `files` as they were, whatever the job before did to them. `cpu_s` bounds the CPU time of each process, whatever
    else the machine has to do.
    """
    nonces = [secrets.token_hex(16) for _ in jobs]
    timeout_s = sum(job.timeout_s for job in jobs) + _GRACE_S
    argv = ["-s", "-B", _RUNNER, _TOOLCHAIN]
    spec = _spec(label, tests)
    try:
        stdin = _stdin(files, jobs, nonces)
        spec = await surrounded(spec, task) if task else spec
        async with backend.open(spec) as sandbox:
            python = ["sh", "-c", _ANY_PYTHON, "sh"] if spec.image or spec.context else ["python3"]
            command = [*(bounded(cpu_s) if cpu_s else ()), *python, *argv]
            result = await sandbox.exec(command, timeout_s=timeout_s, env=_ENV, cwd="/", stdin=stdin)
    except (SetupError, OSError) as error:
        raise GraderError(f"grading sandbox: {error}") from error
    verdicts = _verdicts(result, nonces)
    return [_no_verdict(STARVED) if _may_be_starved(result, verdict) else verdict for verdict in verdicts]


def _may_be_starved(result: ExecResult, verdict: Verdict) -> bool:
    return result.machine_ran_out_of_memory and verdict.ending != "complete"


def bounded(cpu_s: int) -> list[str]:
    """What to put in front of a command, so that each process of it ends by SIGXCPU after so much CPU time."""
    return ["sh", "-c", f'ulimit -S -t {cpu_s} && exec "$@"', "sh"]


def _stdin(files: Mapping[str, bytes], jobs: Sequence[Job], nonces: Sequence[str]) -> bytes:
    """What the runner reads. The files travel with it, since everything that is executed in a container costs
    its engine a tenth of a second; raises SetupError for bad paths."""
    restore = WORKSPACE if len(jobs) > 1 and not all(job.tree for job in jobs) else ""
    said = [json.dumps({"files": len(files), "jobs": len(jobs), "restore": restore}).encode()]
    for name, content in files.items():
        said += os.fsencode(WORKSPACE / checked_path(name)), content
    for job, nonce in zip(jobs, nonces, strict=True):
        said += json.dumps(asdict(job)).encode(), nonce.encode()
    return b"".join(part for data in said for part in (b"%010d" % len(data), data))


def _spec(label: str, tests: Mapping[str, Path]) -> SandboxSpec:
    mounts = [
        Mount(source=Path(runner.__file__), target=_RUNNER),
        Mount(source=toolchain(), target=_TOOLCHAIN),
    ]
    mounts += [Mount(source=folder.resolve(), target=target) for target, folder in tests.items()]
    return SandboxSpec(phase=Phase.GRADE, files={}, label=label, mounts=tuple(mounts), limits=_LIMITS)


def _verdicts(result: ExecResult, nonces: Sequence[str]) -> list[Verdict]:
    ready, *lines = result.stdout.split("\n")
    if ready != runner.READY:
        said = (result.stderr.strip().splitlines() or ["nothing"])[-1][:300]
        raise GraderError(f"the test runner did not start (exit {result.exit_code}): {said}")
    lines += [""] * len(nonces)
    return [_verdict(line, nonce) for line, nonce in zip(lines, nonces, strict=False)]


def _verdict(line: str, nonce: str) -> Verdict:
    if not line.startswith(nonce):
        return _no_verdict(KILLED)
    try:
        return Verdict.model_validate_json(line.removeprefix(nonce))
    except ValidationError:
        return _no_verdict("the report is malformed")


def _no_verdict(ending: str) -> Verdict:
    return Verdict(tests={}, messages={}, canaries=0, ending=ending)
