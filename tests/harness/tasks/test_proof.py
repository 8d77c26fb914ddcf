"""A pool is proven before use: untouched 0, reference 1, for each task, with reasons."""

from __future__ import annotations

from pathlib import Path

import pytest

from lego_harness.sandbox.base import SandboxBackend
from lego_harness.tasks.proof import prove
from tests.support.repair_task import BROKEN, FILES, FIXED, repair_task
from tests.support.sandboxes import BACKENDS, backend_called

pytestmark = pytest.mark.long


@pytest.fixture(params=BACKENDS)
def backend(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SandboxBackend:
    monkeypatch.setenv("LEGO_CACHE", str(tmp_path / "cache"))
    return backend_called(request.param)


async def test_every_task_gets_its_own_verdict(backend: SandboxBackend, tmp_path: Path) -> None:
    absolute = "cd / && cp /solution/fixed.py /workspace/calc.py\n"
    tasks = [
        repair_task(tmp_path / "good"),
        repair_task(tmp_path / "unsolved", **{"solution/solve.sh": "true\n"}),
        repair_task(tmp_path / "failing", **{"solution/solve.sh": "echo gone wrong >&2; exit 3\n"}),
        repair_task(tmp_path / "lost", **{"solution/solve.sh": None}),
        repair_task(tmp_path / "solved", **{"environment/repo/calc.py": FIXED}),
        repair_task(tmp_path / "absolute", **{"solution/solve.sh": absolute, "solution/fixed.py": FIXED}),
    ]
    proofs = await prove(tasks, backend)
    assert [proof.task_id for proof in proofs] == [task.id for task in tasks]
    assert [proof.holds for proof in proofs] == [True, False, False, False, False, True]
    reasons = [proof.reason for proof in proofs]
    assert "reference solution does not pass" in reasons[1]
    assert "exit 3: gone wrong" in reasons[2]
    assert "solve.sh is missing" in reasons[3]
    assert "pass before anything was repaired" in reasons[4]


async def test_a_task_whose_solution_needs_what_is_reverted_of_an_agents_is_refused(
    backend: SandboxBackend, tmp_path: Path
) -> None:
    """Else everybody who repairs it in the same way earns nothing."""
    needs = "cp /solution/fixed.py testing/calc.py\n"
    helped = {
        "solution/solve.sh": needs,
        "solution/fixed.py": FIXED,
        "environment/repo/testing/__init__.py": "",
    }
    moved = {
        "environment/repo/calc.py": "from testing.calc import add, twice\n",
        "environment/repo/testing/calc.py": BROKEN,
    }
    extra = {"solution/solve.sh": FILES["solution/solve.sh"] + "touch conftest.py tests/test_more.py\n"}
    tasks = [
        repair_task(tmp_path / "needed", **helped, **moved),
        repair_task(tmp_path / "not_needed", **extra),
    ]
    proofs = await prove(tasks, backend)
    assert [proof.holds for proof in proofs] == [False, True]
    assert proofs[0].reason.endswith(
        "reverted of the reference, as of an agent's work: testing/calc.py (test file)"
    )


async def test_a_proof_is_remembered_until_the_task_changes(backend: SandboxBackend, tmp_path: Path) -> None:
    task = repair_task(tmp_path / "t")
    assert (await prove([task], backend))[0].holds
    again = await prove([task], _Unusable(backend.name))  # pyright: ignore[reportArgumentType]
    assert again[0].holds
    changed = repair_task(tmp_path / "t", **{"solution/solve.sh": "true\n"})
    assert not (await prove([changed], backend))[0].holds


class _Unusable:
    """A backend that must not be used."""

    cannot_hold: tuple[str, ...] = ()

    def __init__(self, name: str) -> None:
        self.name = name

    async def check(self) -> None:
        raise AssertionError

    async def reap(self, label: str | None = None) -> int:
        raise AssertionError(label)

    def open(self, spec: object) -> object:
        raise AssertionError(spec)
