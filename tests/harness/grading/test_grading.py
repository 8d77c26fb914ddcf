"""Rewards: honest work gets what it earned, cheats get nothing, failures of ours get no number."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lego_harness.errors import GraderError, SetupError
from lego_harness.grading import grader as grader_module
from lego_harness.grading.grader import Grader
from lego_harness.grading.patch import GradedTree
from lego_harness.grading.reference import Expected
from lego_harness.grading.toolchain import toolchain
from lego_harness.sandbox.base import (
    MAX_EXPORT_BYTES,
    MAX_EXPORT_FILES,
    ExecResult,
    Phase,
    Sandbox,
    SandboxBackend,
    SandboxSpec,
)
from lego_harness.tasks.folder import workspace_files
from lego_harness.types import Task
from tests.harness.grading.cheats import CHEATS, left_behind
from tests.support.repair_task import BROKEN, FIXED, repair_task
from tests.support.sandboxes import unique_label

pytestmark = pytest.mark.long

IDS = ("test_hidden.py::test_add[1-2]", "test_hidden.py::test_add[5--5]", "test_hidden.py::test_twice")


async def test_the_untouched_workspace_scores_nothing(grader: Grader, task: Task) -> None:
    grade = await grader.grade(task, workspace_files(task))
    assert grade.reward == 0
    assert [grade.tests[test] for test in IDS] == ["failed", "failed", "passed"]
    assert "assert -1 == 3" in grade.detail


async def test_the_honest_fix_passes_with_its_by_products(grader: Grader, task: Task) -> None:
    by_products = {
        "calc.py": FIXED,
        ".git/HEAD": "x",
        "__pycache__/calc.pyc": b"\0",
        ".pytest_cache/x": "",
        "notes.md": "",
    }
    grade = await grader.grade(task, left_behind(workspace_files(task), by_products))
    assert (grade.reward, grade.detail) == (1, "")
    assert grade.tests == dict.fromkeys(IDS, "passed")


async def test_the_honest_fix_passes_and_its_own_tests_are_reverted_and_named(
    grader: Grader, task: Task
) -> None:
    work = {
        "calc.py": FIXED,
        "tests/test_visible.py": "def test_x(): assert 0\n",
        "conftest.py": "raise SystemExit\n",
    }
    grade = await grader.grade(task, left_behind(workspace_files(task), work))
    assert grade.reward == 1
    assert "conftest.py (test runner configuration)" in grade.detail
    assert "tests/test_visible.py (test file)" in grade.detail


@pytest.mark.parametrize("name", CHEATS)
async def test_a_cheat_scores_nothing(grader: Grader, task: Task, name: str) -> None:
    grade = await grader.grade(task, left_behind(workspace_files(task), CHEATS[name]))
    assert grade.reward == 0
    assert set(grade.tests) == set(IDS)
    assert grade.detail


async def test_deleting_everything_scores_nothing(grader: Grader, task: Task) -> None:
    grade = await grader.grade(task, {})
    assert (grade.reward, set(grade.tests.values())) == (0, {"missing"})


@pytest.mark.parametrize("text", ["def add(a, b) return a + b\n", "import not_there\n"])
async def test_work_that_cannot_be_imported_has_failed_and_forged_nothing(
    grader: Grader, task: Task, text: str
) -> None:
    grade = await grader.grade(task, left_behind(workspace_files(task), {"calc.py": text}))
    assert (grade.reward, set(grade.tests.values()), grade.findings) == (0, {"missing"}, ())
    assert grade.detail.startswith("3 of 3 tests did not run")


@pytest.mark.parametrize(
    "loop",
    ["while True: pass", "import time; time.sleep(10**6)", "import os, signal; os.kill(os.getpid(), 19)"],
)
async def test_code_that_never_ends_is_the_agents_doing(grader: Grader, task: Task, loop: str) -> None:
    await grader.grade(task, workspace_files(task))  # the reference may take its time
    hasty = replace(task, verifier_timeout_s=2.0)
    grade = await grader.grade(hasty, left_behind(workspace_files(task), {"calc.py": FIXED + loop}))
    assert grade.reward == 0
    assert "time limit" in grade.detail
    assert grade.duration_s < 200


@pytest.mark.parametrize(
    "files",
    [dict.fromkeys(map(str, range(MAX_EXPORT_FILES + 1)), b""), {"huge": bytes(MAX_EXPORT_BYTES + 1)}],
    ids=["files", "bytes"],
)
async def test_an_oversized_workspace_is_the_agents_doing(
    grader: Grader, task: Task, files: dict[str, bytes]
) -> None:
    grade = await grader.grade(task, {"calc.py": FIXED.encode(), **files})
    assert grade.reward == 0
    assert "exceeds" in grade.detail


async def test_a_grade_is_the_same_every_time(grader: Grader, task: Task) -> None:
    noisy = BROKEN.replace("a - b", "a + b if hash('x') % 2 else a - b")
    grades = [await grader.grade(task, {"calc.py": noisy.encode()}) for _ in range(3)]
    assert len({grade.reward for grade in grades}) == 1


DEPENDENT = """import calc

def test_first():
    calc.seen = 1
    assert calc.add(1, 2) == 3

def test_second():
    assert calc.seen == 1
    assert calc.add(2, 2) == 4
"""
STUBBORN = """import calc

class Same:
    def __eq__(self, other):
        return calc.add(1, 2) == 3

def test_same():
    assert Same() == 3
"""


@pytest.mark.parametrize(
    "tests", [DEPENDENT, STUBBORN], ids=["needs what ran before", "equals anything by design"]
)
async def test_a_test_that_cannot_be_run_alone_or_contradicted_punishes_nobody(
    backend: SandboxBackend, tmp_path: Path, tests: str
) -> None:
    odd = repair_task(tmp_path / "odd", **{"tests/test_hidden.py": tests})
    grader = Grader(backend, label=unique_label())
    grades = [await grader.grade(odd, {"calc.py": FIXED.encode()}) for _ in range(4)]
    assert [grade.reward for grade in grades] == [1.0] * 4
    assert (await grader.grade(odd, {"calc.py": BROKEN.encode()})).reward == 0


HALF_EMPTY = """import calc

def test_it():
    assert calc.add(1, 2) == 3
    assert all(calc.add(n, 0) == n for n in [])
"""
EQUAL = """class E:
    def __eq__(self, other):
        return True

def add(a, b):
    return E()
"""


async def test_a_cheat_that_was_caught_is_held_against_nobody_else(
    backend: SandboxBackend, tmp_path: Path
) -> None:
    """One of the statements can be contradicted, of the other nothing can be told."""
    odd = repair_task(tmp_path / "odd", **{"tests/test_hidden.py": HALF_EMPTY})
    grader = Grader(backend, label=unique_label())
    for _ in range(6):
        await grader.grade(odd, {"calc.py": EQUAL.encode()})
        assert (await grader.grade(odd, {"calc.py": FIXED.encode()})).reward == 1


LOOSE = """import calc

def check(a, b, wanted):
    assert calc.add(a, b) == wanted

def test_it():
    check(1, 2, 3)
"""
FORGER = """
import gc

class Passes(dict):
    def __setitem__(self, test, outcome):
        super().__setitem__(test, outcome if test.startswith(("..", "::")) else "passed")

    def get(self, test, default=None):
        return "incomplete"

for record in [o for o in gc.get_objects() if type(o).__name__ == "Record"]:
    record._outcomes = Passes(record._outcomes)
"""


async def test_forging_pays_nothing_where_the_tests_have_no_assertion_of_their_own(
    backend: SandboxBackend, tmp_path: Path
) -> None:
    loose = repair_task(tmp_path / "loose", **{"tests/test_hidden.py": LOOSE})
    grader = Grader(backend, label=unique_label())
    for cheat in (BROKEN + FORGER, EQUAL):
        assert (await grader.grade(loose, {"calc.py": cheat.encode()})).reward == 0
    assert [(await grader.grade(loose, {"calc.py": FIXED.encode()})).reward for _ in range(3)] == [1, 1, 1]


SUBTESTS = """import unittest
import calc

class TestAdd(unittest.TestCase):
    def test_it(self):
        for a, b, wanted in [(1, 2, 3), (5, -5, 0)]:
            with self.subTest(a=a):
                self.assertEqual(calc.add(a, b), wanted)
"""


async def test_subtests_are_part_of_their_test(backend: SandboxBackend, tmp_path: Path) -> None:
    task = repair_task(tmp_path / "sub", **{"tests/test_hidden.py": SUBTESTS})
    grader = Grader(backend, label=unique_label())
    assert [(await grader.grade(task, {"calc.py": FIXED.encode()})).reward for _ in range(3)] == [1, 1, 1]
    half = BROKEN.replace("a - b", "3")
    assert [(await grader.grade(task, {"calc.py": text.encode()})).reward for text in (BROKEN, half)] == [
        0,
        0,
    ]


SINGLE = """import calc

def test_it():
    assert calc.add(1, 2) == 3
"""
GUESSER = """
import gc, os

class Guesses(dict):
    def __setitem__(self, test, outcome):
        guess = "passed" if "first" in os.environ else "failed"
        super().__setitem__(test, outcome if test.startswith(("..", "::")) else guess)

    def get(self, test, default=None):
        return "incomplete"

if not os.path.exists("/tmp/asked"):
    os.environ["first"] = "1"
    open("/tmp/asked", "w").close()
for record in [o for o in gc.get_objects() if type(o).__name__ == "Record"]:
    record._outcomes = Guesses(record._outcomes)
"""
"""Says that everything passed in the first copy and failed in the second, which is right every second time."""


class Counting:
    """A backend that counts what is graded in it."""

    cannot_hold: tuple[str, ...] = ()

    def __init__(self, inner: SandboxBackend) -> None:
        self._inner, self.name, self.count = inner, inner.name, 0

    @contextlib.asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncGenerator[Sandbox]:
        self.count += spec.phase is Phase.GRADE
        async with self._inner.open(spec) as sandbox:
            yield sandbox


async def test_what_passed_by_one_toss_of_a_coin_is_asked_again(
    backend: SandboxBackend, tmp_path: Path
) -> None:
    single = repair_task(tmp_path / "single", **{"tests/test_hidden.py": SINGLE})
    counting = Counting(backend)
    grader = Grader(counting, label=unique_label())  # pyright: ignore[reportArgumentType] the parts that grading uses
    assert (await grader.grade(single, {"calc.py": FIXED.encode()})).reward == 1
    counting.count = 0
    assert (await grader.grade(single, {"calc.py": FIXED.encode()})).reward == 1
    assert counting.count == 4
    guesses = [await grader.grade(single, {"calc.py": (BROKEN + GUESSER).encode()}) for _ in range(3)]
    assert sum(grade.reward for grade in guesses) < 3


class Slow:
    """A backend on a machine that is suddenly too busy to finish any tests in time."""

    cannot_hold: tuple[str, ...] = ()

    def __init__(self, inner: SandboxBackend) -> None:
        self._inner, self.name, self.is_busy = inner, inner.name, False

    @contextlib.asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncGenerator[Sandbox]:
        async with self._inner.open(spec) as sandbox:
            if self.is_busy and spec.phase is Phase.GRADE:
                sandbox.exec = self._too_late  # type: ignore[method-assign] of this sandbox alone
            yield sandbox

    async def _too_late(self, argv: object, *, stdin: bytes, **options: object) -> ExecResult:
        late = {"tests": {}, "messages": {}, "canaries": 0, "ending": "the tests ran into their time limit"}
        nonces = [nonce.decode() for nonce in re.findall(rb"0000000032([0-9a-f]{32})", stdin)]
        lines = [nonce + json.dumps(late) for nonce in nonces]
        return _ended("\n".join(["lego-runner ready", *lines]))


async def test_a_reference_that_did_not_come_to_its_end_excuses_no_cheat(
    backend: SandboxBackend, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(backend)
    grader = Grader(slow, label=unique_label())  # pyright: ignore[reportArgumentType] the parts that grading uses
    equal = {**workspace_files(task), "calc.py": EQUAL.encode() + b"\ndef twice(a):\n    return E()\n"}
    solved = grader_module.solved_tree

    async def busy_from_now_on(*given: Any, **named: Any) -> GradedTree:
        tree = await solved(*given, **named)
        slow.is_busy = True
        return tree

    monkeypatch.setattr(grader_module, "solved_tree", busy_from_now_on)
    with pytest.raises(GraderError, match="not judged now: the tests ran into their time limit"):
        await grader.grade(task, equal)


async def test_a_reference_that_does_not_pass_is_no_grade(backend: SandboxBackend, tmp_path: Path) -> None:
    grader = Grader(backend, label=unique_label())
    wrong = repair_task(tmp_path / "wrong", **{"solution/solve.sh": "true\n"})
    with pytest.raises(GraderError, match="reference solution does not pass"):
        await grader.grade(wrong, {"calc.py": FIXED.encode()})
    failing = repair_task(tmp_path / "failing", **{"solution/solve.sh": "echo no >&2; exit 3\n"})
    with pytest.raises(GraderError, match="exit 3: no"):
        await grader.grade(failing, {"calc.py": FIXED.encode()})


def test_the_toolchain_stands_alone(tmp_path: Path) -> None:
    assert (toolchain() / "pytest" / "__init__.py").is_file()
    assert not list(toolchain().rglob("*.so"))


# --- failures of ours: no number ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokenBackend:
    """Sandboxes that fail in a chosen way, as engines do."""

    opening: Exception | None = None
    result: ExecResult | Exception | None = None
    name: str = "broken"
    cannot_hold: tuple[str, ...] = ()

    async def check(self) -> None:
        return

    async def reap(self, label: str | None = None) -> int:
        return 0

    @contextlib.asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncGenerator[BrokenBackend]:
        if self.opening:
            raise self.opening
        yield self

    def exec_prefix(self, env: object = None, cwd: str = "/") -> list[str]:
        return []

    async def exec(self, argv: object, **options: object) -> ExecResult:
        if isinstance(self.result, Exception):
            raise self.result
        assert self.result is not None
        return self.result

    async def export(self) -> dict[str, bytes]:
        return {}


def _ended(stdout: str, exit_code: int = 0) -> ExecResult:
    return ExecResult(
        exit_code=exit_code, stdout=stdout, stderr="python3: not found", timed_out=False, duration_s=0.1
    )


@pytest.mark.parametrize(
    "broken",
    [
        BrokenBackend(opening=SetupError("no engine")),
        BrokenBackend(opening=OSError("disk full")),
        BrokenBackend(result=SetupError("the container is gone")),
        BrokenBackend(result=_ended("", exit_code=127)),
        BrokenBackend(result=_ended("something else\n")),
    ],
    ids=["no sandbox", "full disk", "sandbox lost", "no interpreter", "no runner"],
)
async def test_a_failure_of_the_grading_sandbox_is_no_reward(
    backend: SandboxBackend, task: Task, broken: BrokenBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lego_harness.grading.grader.expected_tests", _known)
    with pytest.raises(GraderError):
        await Grader(broken, label="x").grade(task, {"calc.py": FIXED.encode()})  # pyright: ignore[reportArgumentType]


async def _known(task: Task, backend: SandboxBackend, *, label: str) -> Expected:
    return Expected(fail_to_pass=IDS, pass_to_pass=())


@pytest.mark.parametrize("said", ["", "[]", '[{"tests": {}}]', "0" * 32 + "[]"])
async def test_a_report_without_the_nonce_is_not_believed(
    task: Task, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lego_harness.grading.grader.expected_tests", _known)
    broken = BrokenBackend(result=_ended(f"lego-runner ready\n{said}"))
    grade = await Grader(broken, label="x").grade(task, {"calc.py": FIXED.encode()})  # pyright: ignore[reportArgumentType]
    assert (grade.reward, set(grade.tests.values())) == (0, {"missing"})
