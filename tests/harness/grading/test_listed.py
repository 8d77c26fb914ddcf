"""FAIL_TO_PASS and PASS_TO_PASS decide where a task has them, and are refused where they are wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_harness.errors import GraderError
from lego_harness.grading.grader import Grader
from lego_harness.grading.listed import listed_tests
from lego_harness.sandbox.bubblewrap import BubblewrapBackend
from lego_harness.tasks.folder import workspace_files
from lego_harness.tasks.proof import prove
from lego_harness.types import Task
from tests.support.repair_task import FIXED, TESTS, repair_task
from tests.support.sandboxes import unique_label

pytestmark = pytest.mark.long

ADD = ["test_hidden.py::test_add[1-2]", "test_hidden.py::test_add[5--5]"]
TWICE = "test_hidden.py::test_twice"
FLAKY = TESTS + "\n\ndef test_somebody_elses():\n    assert False\n"


def listing(folder: Path, fail: Any, kept: Any, tests: str = TESTS) -> Task:
    config = json.dumps({"instance_id": "x__y-1", "FAIL_TO_PASS": fail, "PASS_TO_PASS": kept})
    return repair_task(folder, **{"tests/config.json": config, "tests/test_hidden.py": tests})


async def test_only_listed_tests_decide_in_lists_and_in_swe_benchs_strings(tmp_path: Path) -> None:
    plain = listing(tmp_path / "plain", [f"tests/{ADD[0]}", ADD[1]], [TWICE], FLAKY)
    packed = listing(tmp_path / "packed", json.dumps(ADD), json.dumps([TWICE]), FLAKY)
    unlisted = repair_task(tmp_path / "unlisted", **{"tests/test_hidden.py": FLAKY})
    proofs = await prove([plain, packed, unlisted], BubblewrapBackend())
    assert [proof.holds for proof in proofs] == [True, True, False], [proof.reason for proof in proofs]
    grader = Grader(BubblewrapBackend(), label=unique_label())
    for text, reward in ((FIXED, 1.0), (FIXED.replace("2 * a", "a"), 0.0)):
        grade = await grader.grade(packed, {**workspace_files(packed), "calc.py": text.encode()})
        assert (grade.reward, sorted(grade.tests)) == (reward, sorted([*ADD, TWICE])), grade.detail


async def test_lists_that_the_runs_contradict_are_refused(tmp_path: Path) -> None:
    tasks = [
        listing(tmp_path / "unknown", [*ADD, "test_hidden.py::test_gone"], []),
        listing(tmp_path / "passes-before", [*ADD, TWICE], []),
        listing(tmp_path / "fails-before", [ADD[0]], [ADD[1]]),
    ]
    reasons = [proof.reason for proof in await prove(tasks, BubblewrapBackend())]
    assert "test_gone did not run with the reference solution, expected a pass" in reasons[0]
    assert "test_twice passed before anything was repaired, expected no pass" in reasons[1]
    assert "[5--5] failed before anything was repaired, expected a pass" in reasons[2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"FAIL_TO_PASS": ["a", "b"', "cannot be read as JSON"),
        ('{"FAIL_TO_PASS": "[\\"a\\", "}', "FAIL_TO_PASS"),
        ('{"FAIL_TO_PASS": ["a", "a"]}', "a is listed 2 times"),
        ('{"FAIL_TO_PASS": ["a"], "PASS_TO_PASS": ["a"]}', "a is in FAIL_TO_PASS and in PASS_TO_PASS"),
        ('{"PASS_TO_PASS": ["a"]}', "FAIL_TO_PASS"),
        ('{"FAIL_TO_PASS": []}', "FAIL_TO_PASS"),
        ('{"FAIL_TO_PASS": [3]}', "FAIL_TO_PASS.0: .*got 3"),
        ('{"FAIL_TO_PASS": {"a": 1}}', "FAIL_TO_PASS"),
        ("[" * 100_000, "cannot be read as JSON"),
        (f'{{"FAIL_TO_PASS": ["{"a" * 5_000}"]}}', "FAIL_TO_PASS.0: .*at most 4000"),
        (" " * (8 * 2**20 + 1), "expected at most"),
    ],
)
async def test_wrong_lists_are_no_verdict_and_no_reward(tmp_path: Path, text: str, said: str) -> None:
    task = repair_task(tmp_path / "t", **{"tests/config.json": text})
    (proof,) = await prove([task], _NeverOpened())  # pyright: ignore[reportArgumentType]
    assert not proof.holds
    assert re.search(said, proof.reason)
    with pytest.raises(GraderError, match=said):
        await Grader(_NeverOpened(), label="x").grade(task, {})  # pyright: ignore[reportArgumentType]


class _NeverOpened:
    """What is wrong with a list needs no sandbox."""

    name = "bubblewrap"
    cannot_hold: tuple[str, ...] = ()

    def open(self, spec: object) -> Any:
        raise AssertionError("a sandbox was opened")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON, st.integers(0, 60))
def test_whatever_the_file_says_it_is_a_list_nothing_or_a_grader_error(
    tmp_path_factory: pytest.TempPathFactory, fail: Any, kept: Any, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("tests")
    text = json.dumps({"FAIL_TO_PASS": fail, "PASS_TO_PASS": kept})
    (folder / "config.json").write_text(text[: len(text) - cut])
    try:
        listed = listed_tests(folder)
    except GraderError:
        return
    assert listed is not None
    names = [*listed.fail_to_pass, *listed.pass_to_pass]
    assert listed.fail_to_pass
    assert len(set(names)) == len(names)
