"""JUnit XML and TAP: the outcomes that stand there, or a named fault; never more passes than were told."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_harness.errors import GraderError
from lego_harness.grading import reports
from lego_harness.grading.reports import read_junit, read_tap

OUTCOMES = ("passed", "failed", "error", "skipped")
ELEMENTS = {"passed": "", "failed": "<failure/>", "error": "<error/>", "skipped": "<skipped/>"}
NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=20)
PLAIN = NAMES.map(str.strip).filter(
    lambda name: name and not set(name) & set("#\\-") and not name[0].isdigit()
)


def suite(cases: str, count: int | str = "") -> bytes:
    said = f' tests="{count}"' if count != "" else ""
    return f'<?xml version="1.0"?><testsuites><testsuite{said}>{cases}</testsuite></testsuites>'.encode()


@given(st.lists(st.tuples(NAMES, st.sampled_from(OUTCOMES)), min_size=1, max_size=8))
def test_a_junit_report_says_what_was_written_and_of_a_name_twice_the_worst(
    cases: list[tuple[str, str]],
) -> None:
    text = "".join(f"<testcase name={quoteattr(name)}>{ELEMENTS[said]}</testcase>" for name, said in cases)
    order = ("passed", "skipped", "failed", "error")
    worst: dict[str, str] = {}
    for name, said in cases:
        worst[name] = max(worst.get(name, "passed"), said, key=order.index)
    assert read_junit(suite(text, len(cases))) == worst


@given(
    st.lists(
        st.tuples(PLAIN, st.sampled_from(OUTCOMES)), min_size=1, max_size=8, unique_by=lambda case: case[0]
    )
)
def test_a_tap_report_says_what_was_written(cases: list[tuple[str, str]]) -> None:
    lines = [
        f"{'not ok' if said in ('failed', 'error') else 'ok'} {at} - {name}{' # SKIP why' * (said == 'skipped')}"
        for at, (name, said) in enumerate(cases, 1)
    ]
    wanted = {name: "failed" if said == "error" else said for name, said in cases}
    for text in (["TAP version 14", f"1..{len(cases)}", *lines], [*lines, f"1..{len(cases)}"]):
        assert read_tap("\n".join([*text, ""]).encode()) == wanted


@given(
    st.binary(max_size=200) | st.text(max_size=200).map(str.encode), st.sampled_from([read_junit, read_tap])
)
def test_whatever_is_read_it_is_outcomes_or_a_grader_error(
    report: bytes, read: Callable[[bytes], dict[str, str]]
) -> None:
    outcomes = {"refused": "error"}
    with contextlib.suppress(GraderError):
        outcomes = read(report)
    assert outcomes
    assert set(outcomes.values()) <= set(OUTCOMES)


@given(st.integers(0, 400))
def test_a_report_that_was_cut_short_is_refused(cut: int) -> None:
    whole = suite("".join(f'<testcase classname="c" name="t{i}"/>' for i in range(9)), 9)
    tap = b"1..9\n" + b"".join(b"ok %d - t\n" % i for i in range(1, 10))
    with pytest.raises(GraderError):
        read_junit(whole[: min(cut, len(whole) - 1)])
    with pytest.raises(GraderError):
        read_tap(tap[: min(cut, len(tap) - 1)])


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (
            b'<!DOCTYPE t SYSTEM "file:///etc/passwd"><testsuite><testcase name="a"/></testsuite>',
            "document type",
        ),
        (b'<!DOCTYPE t [<!ENTITY a "b">]><testsuite><testcase name="&a;"/></testsuite>', "document type"),
        (b"<testsuite/>", "tells of no test"),
        (b'<html><testcase name="a"/></html>', "expected <testsuites> or <testsuite>"),
        (b'<testsuite tests="2"><testcase name="a"/></testsuite>', "promises 2 tests and tells of 1"),
        (b'<testsuite tests="-1"><testcase name="a"/></testsuite>', "expected a count"),
        (b'<testsuite><testcase name=""/></testsuite>', "a test's name has 0 characters"),
        (
            b'<testsuite><testcase name="a"><testcase name="b"/></testcase></testsuite>',
            "a <testcase> in <testcase>",
        ),
        (b"<testsuite>" * 100, "in more than 64 others"),
        (b'<testsuite><testcase name="a"/></testsuite><testsuite/>', "cannot be read as XML"),
        (b'<?xml version="1.0" encoding="rot13"?><testsuite/>', "cannot be read as XML"),
        (b" " * (reports.MAX_BYTES + 1), "expected at most"),
    ],
)
def test_a_junit_report_that_cannot_be_meant_is_refused_in_one_line(report: bytes, said: str) -> None:
    with pytest.raises(GraderError, match=said):
        read_junit(report)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ("ok 1 - a\n", "no plan"),
        ("1..2\nok 1 - a\n", "the plan says 2 tests, it tells of 1"),
        ("1..1\nok 1 - a\nok 2 - forged\n", "the plan says 1 tests, it tells of 2"),
        ("1..1\n1..1\nok 1\n", "two plans"),
        ("1..2\nok 1 - a\nok 1 - b\n", "number 1 twice"),
        ("1..1\nBail out! no disk\nok 1 - a\n", "Bail out! no disk"),
        ("1..0 # SKIP nothing here\n", "tells of no test"),
    ],
)
def test_a_tap_report_that_cannot_be_meant_is_refused_in_one_line(report: str, said: str) -> None:
    with pytest.raises(GraderError, match=said):
        read_tap(report.encode())


def test_tap_as_runners_write_it() -> None:
    report = (
        "TAP version 13\n# Subtest: sums\n    ok 1 - inner\n    not ok 2 - inner\n    1..2\nnot ok 1 - sums # time=3ms\n"
        "  ---\n  duration_ms: 3\n  ...\nok 2 - later # TODO not yet\nnot ok 3 - known # todo\nok 4\n1..4\n# pass 2\n"
    )
    assert read_tap(report.encode()) == {
        "sums # time=3ms": "failed",
        "later": "skipped",
        "known": "skipped",
        "4": "passed",
    }


@pytest.mark.skipif(not (shutil.which("perl") and shutil.which("node")), reason="needs perl and node")
def test_reports_of_real_runners(tmp_path: Path) -> None:
    script = "use Test::More tests => 2; ok(1, 'adds'); is(1, 2, 'subtracts');"
    told = subprocess.run(["perl", "-e", script], capture_output=True, check=False).stdout
    assert read_tap(told) == {"adds": "passed", "subtracts": "failed"}
    (tmp_path / "a.test.mjs").write_text(
        "import {test} from 'node:test'; import assert from 'node:assert';\n"
        "test('adds', () => assert.equal(1, 1)); test('subtracts', () => assert.equal(1, 2)); test.skip('later', () => {});\n"
    )
    for kind, read in (("tap", read_tap), ("junit", read_junit)):
        command = ["node", "--test", f"--test-reporter={kind}", "a.test.mjs"]
        told = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).stdout
        wanted = {"adds": "passed", "subtracts": "failed", "later": "skipped"}
        assert {name.rpartition("::")[2]: said for name, said in read(told).items()} == wanted
