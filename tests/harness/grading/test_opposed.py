"""Two copies of the hidden tests, and what their verdicts are worth together."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lego_harness.grading.opposed import MAX_FUNCTIONS, Opposed, Ruling, opposed
from lego_harness.grading.runner import CANARIES
from lego_harness.grading.trial import Verdict

F, G = "test_x.py::test_f", "test_x.py::test_g"


def verdict(ending: str = "complete", **tests: str) -> Verdict:
    named = {f"test_x.py::{name}": outcome for name, outcome in tests.items()}
    return Verdict(tests=named, messages={}, canaries=len(CANARIES), ending=ending)


def pair(**flips: bool) -> Opposed:
    parts = {f"test_x.py::{name}": (flip,) for name, flip in flips.items()}
    return made(parts)


def made(flips: dict[str, tuple[bool, ...]]) -> Opposed:
    return Opposed(folder=Path(), second={}, targets=("/a", "/b"), flips=flips)


def test_each_function_is_judged_where_it_was_genuine() -> None:
    first, second = (
        verdict(test_f="failed", test_g="passed", test_h="passed"),
        verdict(test_f="passed", test_g="failed"),
    )
    ruling = pair(test_f=True, test_g=False).ruling([first, second])
    assert ruling.verdict.tests == {"test_x.py::test_h": "passed", F: "passed", G: "passed"}
    assert ruling.held == ()


@pytest.mark.parametrize("flip", [True, False])
def test_passing_a_test_and_its_contradiction_is_named(flip: bool) -> None:
    assert pair(test_f=flip).ruling([verdict(test_f="passed")] * 2).held == (F,)


@pytest.mark.parametrize("flip", [True, False])
def test_failing_both_is_only_a_failure(flip: bool) -> None:
    ruling = pair(test_f=flip).ruling([verdict(test_f="failed")] * 2)
    assert (ruling.verdict.tests, ruling.held) == ({F: "failed"}, ())


@pytest.mark.parametrize("outcome", ["skipped", "incomplete", "passed"])
def test_a_contradiction_must_fail_and_nothing_else(outcome: str) -> None:
    ruling = pair(test_f=False).ruling([verdict(test_f="passed"), verdict(test_f=outcome)])
    assert ruling.held == (F,)


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize(
    "beside", [("test_f[more]", "failed"), ("test_f[more]", "skipped")], ids=["a failure", "a skip"]
)
def test_a_node_that_is_none_excuses_no_other(flip: bool, beside: tuple[str, str]) -> None:
    """A forger may report what it likes beside the tests that there are."""
    (more, outcome) = beside
    said = verdict(**{"test_f": "passed", more: outcome})
    assert pair(test_f=flip).ruling([said, said]).held == (F,)


@pytest.mark.parametrize("flip", [True, False])
def test_a_row_whose_id_was_changed_is_not_excused_by_the_other_id(flip: bool) -> None:
    """Who knows both ids says that the one before him passed, and of the other that it failed."""
    first, second = (
        verdict(**{"test_f[1-2]": "passed", "test_f[1-3]": "failed"}),
        verdict(**{"test_f[1-3]": "passed", "test_f[1-2]": "failed"}),
    )
    assert pair(test_f=flip).ruling([first, second]).held == (F,)


def test_what_is_skipped_in_both_copies_says_nothing() -> None:
    first, second = (
        verdict(**{"test_f[a]": "passed", "test_f[b]": "skipped"}),
        verdict(**{"test_f[a]": "failed", "test_f[b]": "skipped"}),
    )
    assert pair(test_f=False).ruling([first, second]).held == ()


def test_an_unsound_half_speaks_for_the_whole() -> None:
    ruling = pair(test_f=False).ruling([verdict(test_f="passed"), verdict("killed")])
    assert not ruling.verdict.is_sound


def test_rows_are_matched_by_their_order_since_a_changed_row_changes_its_id() -> None:
    flips = {F: (True, False)}
    first = verdict(**{"test_f[1-9]": "failed", "test_f[2-4]": "passed"})
    second = verdict(**{"test_f[1-1]": "passed", "test_f[2-5]": "failed"})
    ruling = made(flips).ruling([first, second])
    assert ruling.verdict.tests == {f"{F}[1-1]": "passed", f"{F}[2-4]": "passed"}
    assert ruling.held == ()


def test_guessing_which_copy_is_genuine_fails_for_every_fixed_guess(tmp_path: Path) -> None:
    """A forger who says of the first copy that all passed, and of the second that all failed."""
    (tmp_path / "test_x.py").write_text("def test_f():\n    assert f() == 3\n")
    seen: set[bool] = set()
    for seed in range(20):
        with opposed(tmp_path, {F: 1}, dice=random.Random(seed)) as draw:
            texts = [(draw.folder / "test_x.py").read_text(), draw.second["test_x.py"]]
            assert sorted("== 3" in text for text in texts) == [False, True]
            assert ("== 3" in texts[0]) == (draw.flips[F] == (False,))
            ruling = draw.ruling([verdict(test_f="passed"), verdict(test_f="failed")])
            seen.add(ruling.verdict.tests[F] == "passed" and not ruling.held)
    assert seen == {True, False}


def test_what_is_not_contradicted_is_the_same_in_both_copies_and_readable_by_anybody(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("def test_f():\n    assert f() == 3\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.json").write_text("{}")
    with opposed(tmp_path, {F: 1}) as draw:
        shared = draw.folder / "data" / "x.json"
        assert (shared.read_text(), shared.stat().st_mode & 0o444) == ("{}", 0o444)
        assert list(draw.second) == ["test_x.py"]
    assert not draw.folder.exists()


def test_the_second_copy_is_shown_to_nobody_before_the_first_is_reported(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("def test_f():\n    assert f() == 3\n")
    with opposed(tmp_path, {F: 1}) as draw:
        first, second = draw.jobs(1.0)
        assert draw.mounts == {first.tests: draw.folder}
        assert not first.changed
    assert (second.tests, second.model, second.changed) == (draw.targets[1], first.tests, draw.second)


def test_asked_again_only_what_is_contradicted_is_run_and_each_failure_is_looked_at() -> None:
    (first, second) = made({F: (False,), G: (True,)}).jobs(1.0, again=True)
    assert first.select == second.select == (F, G)
    ruling = Ruling(verdict=verdict(test_f="failed", test_g="passed"))
    assert made({F: (False,), G: (True,)}).doubtful(ruling, [F, G]) == set()
    assert made({F: (False,), G: (True,)}).doubtful(ruling, [F, G], again=True) == {F}


def test_nobody_knows_beforehand_which_functions_are_contradicted(tmp_path: Path) -> None:
    """Else a forger would do the first ones honestly, and the rest not at all."""
    names = [f"test_{letter}" for letter in "abcdefghijklmnopqrstuvwx"]
    (tmp_path / "test_x.py").write_text("".join(f"def {n}():\n    assert f() == 3\n" for n in names))
    fixed, kept = ({f"test_x.py::{name}": 1 for name in half} for half in (names[:12], names[12:]))
    seen: set[str] = set()
    for seed in range(40):
        with opposed(tmp_path, fixed, kept, dice=random.Random(seed)) as draw:
            assert len(draw.flips) == MAX_FUNCTIONS
            seen |= draw.flips.keys()
    assert seen == fixed.keys()
    with opposed(tmp_path, {F: 1}, kept) as draw:
        assert F in draw.flips


def test_both_copies_have_names_that_a_package_of_tests_can_have(tmp_path: Path) -> None:
    """pytest takes a folder whose name begins with a digit for no package: relative imports would fail by chance."""
    for _ in range(40):
        with opposed(tmp_path) as copies:
            assert all(Path(target).name.isidentifier() for target in copies.targets)
