"""Which faults are tried is drawn by the seed alone, from what tests call and nobody can copy the repair of."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from lego_harness.synthesis.coverage import Coverage
from lego_harness.synthesis.project import Project, read_project
from lego_harness.synthesis.screen import candidates
from tests.support.archives import FILES, archive


def chosen(project: Project, seed: int) -> list[tuple[int, bytes]]:
    """First line of the function and the file with the fault, where all but `unused` are called."""
    lines = FILES["shop/prices.py"].splitlines()
    called = [n for n, line in enumerate(lines, 1) if line.startswith("def ") and "unused" not in line]
    callers = {("shop/prices.py", line): frozenset({"test_prices.py"}) for line in called}
    coverage = Coverage(
        passing={"test_prices.py": frozenset({"test_prices.py::test_total"})}, callers=callers, seconds={}
    )
    return [(fault.line, source) for fault, source in candidates(project, coverage, seed=seed)]


def test_the_same_seed_tries_the_same_faults_and_at_most_two_of_a_function(tmp_path: Path) -> None:
    project = read_project(str(archive(tmp_path / "shop-1.0.tar.gz")))
    found = chosen(project, 0)
    assert found == chosen(project, 0)
    assert found != chosen(project, 1)
    assert set(Counter(line for line, _ in found).values()) == {1, 2}
    assert not any(b"return a + b" in source for _, source in found)


def test_a_file_that_stands_twice_in_an_archive_gets_no_fault(tmp_path: Path) -> None:
    copied = {"build/lib/shop/prices.py": FILES["shop/prices.py"]}
    assert chosen(read_project(str(archive(tmp_path / "shop-1.0.tar.gz", copied))), 0) == []


def test_only_tests_that_call_a_function_are_run_over_its_faults() -> None:
    coverage = Coverage(
        passing={
            "test_a.py": frozenset({"test_a.py::test_x[1]", "test_a.py::test_x[2]", "test_a.py::test_y"})
        },
        callers={("m.py", 1): frozenset({"test_a.py::test_x"}), ("m.py", 9): frozenset({"test_a.py"})},
        seconds={"test_a.py::test_x[1]": 1.0, "test_a.py::test_x[2]": 2.0, "test_a.py::test_y": 4.0},
    )
    assert coverage.reaching(("m.py", 1)) == ({"test_a.py::test_x[1]", "test_a.py::test_x[2]"}, 3.0)
    assert coverage.reaching(("m.py", 9)) == (coverage.passing["test_a.py"], 7.0)
