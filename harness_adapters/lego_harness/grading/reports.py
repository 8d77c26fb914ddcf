"""Reports of test runners other than ours: JUnit XML and TAP, as outcomes by test name.

    report bytes ─ read_junit | read_tap ─▶ {name: passed | failed | error | skipped}

Invariants: a report is bounded and read whole, or refused with a GraderError that says what is wrong; a name that is
there twice has its worst outcome; what a report promises and does not tell is a fault, never a pass; nothing that a
report names is opened, fetched or expanded. Owns no belief: whoever can run code beside a runner can write its
report, so that a reward needs more than what stands here (`opposed.py`).
"""

from __future__ import annotations

import re
from xml.parsers import expat

from lego_harness.errors import GraderError
from lego_harness.text import one_line

MAX_BYTES = 16 * 2**20
MAX_TESTS = 50_000
MAX_NAME = 4_000
_MAX_DEPTH = 64
_WORST = ("passed", "skipped", "failed", "error")
_SUITES = ("testsuites", "testsuite")
_RESULTS = {"failure": "failed", "error": "error", "skipped": "skipped"}


def read_junit(report: bytes) -> dict[str, str]:
    """Outcomes of a JUnit XML report by `classname::name`; raises GraderError."""
    reader = _JUnit()
    try:
        reader.parser.Parse(_bounded(report), True)
    except (expat.ExpatError, UnicodeError, ValueError, LookupError) as error:
        raise GraderError(
            f"JUnit report: cannot be read as XML: {one_line(str(error), limit=120)}"
        ) from error
    return _some(reader.outcomes, "JUnit")


def read_tap(report: bytes) -> dict[str, str]:
    """Outcomes of a TAP report (versions 12 to 14) by description, else by number; raises GraderError.

    Subtests, which are indented, count by the line that sums them up.
    """
    reader = _Tap()
    if not _bounded(report).endswith(b"\n"):
        raise GraderError("TAP report: its last line has no end: it is cut short")
    for line in report.decode("utf-8", "replace").split("\n"):
        reader.line(line.rstrip("\r"))
    reader.end()
    return _some(reader.outcomes, "TAP")


class _JUnit:
    """What an expat parser tells, as outcomes. Handlers raise GraderError."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self._open: list[str] = []
        self._case = ""
        self._outcome = ""
        self._promised: list[int | None] = []
        self._told: list[int] = []
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = _refuse_declarations
        self.parser.EntityDeclHandler = _refuse_declarations

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= _MAX_DEPTH:
            raise GraderError(f"JUnit report: elements in more than {_MAX_DEPTH} others")
        if not self._open and tag not in _SUITES:
            raise GraderError(
                f"JUnit report: expected <testsuites> or <testsuite>, got <{one_line(tag, limit=40)}>"
            )
        parent = self._open[-1] if self._open else ""
        self._open.append(tag)
        if tag in _SUITES:
            self._promised.append(_count(attributes.get("tests")))
            self._told.append(0)
        elif tag == "testcase":
            if parent not in _SUITES:
                raise GraderError(f"JUnit report: a <testcase> in <{one_line(parent, limit=40)}>")
            names = [attributes.get("classname", ""), attributes.get("name", "")]
            self._case, self._outcome = "::".join(name for name in names if name), "passed"
        elif parent == "testcase" and tag in _RESULTS:
            self._outcome = _worse(self._outcome, _RESULTS[tag])

    def _end(self, tag: str) -> None:
        self._open.pop()
        if tag == "testcase":
            _note(self.outcomes, self._case, self._outcome, "JUnit")
            self._told[-1] += 1
        elif tag in _SUITES:
            promised, told = self._promised.pop(), self._told.pop()
            if promised is not None and told < promised:
                raise GraderError(f"JUnit report: a suite promises {promised} tests and tells of {told}")
            if self._told:  # the outer suite counts those of the inner
                self._told[-1] += told


_POINT = re.compile(r"(not )?ok\b(?: +(\d{1,9}))?(?: +-(?= |$))? *(.*)")
_PLAN = re.compile(r"1\.\.(\d{1,9})(?: *#.*)?$")
_DIRECTIVE = re.compile(r"(?:^| +)# *(todo|skip)\S*(?:\s.*)?$", re.IGNORECASE)


class _Tap:
    """Lines of a TAP stream, as outcomes."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self._numbers: set[int] = set()
        self._plan: int | None = None

    def line(self, text: str) -> None:
        """Take one line; raises GraderError."""
        if text.startswith((" ", "\t")):
            return  # a subtest, or what a test says in YAML
        if text.startswith("Bail out!"):
            raise GraderError(f"TAP report: {one_line(text, limit=120)}")
        if plan := _PLAN.fullmatch(text):
            if self._plan is not None:
                raise GraderError("TAP report: two plans, expected one")
            self._plan = int(plan[1])
        elif point := _POINT.fullmatch(text):
            self._point(bool(point[1]), point[2], point[3])

    def _point(self, is_not: bool, number: str | None, rest: str) -> None:
        at = int(number) if number else max(self._numbers, default=0) + 1
        if at in self._numbers or at == 0:
            raise GraderError(f"TAP report: number {at} twice, or none, expected each test once")
        self._numbers.add(at)
        directive = _DIRECTIVE.search(rest)
        name = (rest[: directive.start()] if directive else rest).strip() or str(at)
        kind = directive[1].lower() if directive else ""
        outcome = "skipped" if kind else "failed" if is_not else "passed"
        _note(self.outcomes, name.replace("\\#", "#").replace("\\\\", "\\"), outcome, "TAP")

    def end(self) -> None:
        """Whatever was promised must have been told; raises GraderError."""
        if self._plan is None:
            raise GraderError("TAP report: no plan (1..N): it may be cut short")
        if self._numbers != set(range(1, self._plan + 1)):
            raise GraderError(
                f"TAP report: the plan says {self._plan} tests, it tells of {len(self._numbers)}"
            )


def _bounded(report: bytes) -> bytes:
    if len(report) > MAX_BYTES:
        raise GraderError(f"test report: {len(report)} bytes, expected at most {MAX_BYTES}")
    return report


def _note(outcomes: dict[str, str], name: str, outcome: str, kind: str) -> None:
    if not name or len(name) > MAX_NAME:
        raise GraderError(
            f"{kind} report: a test's name has {len(name)} characters, expected 1 to {MAX_NAME}"
        )
    if len(outcomes) >= MAX_TESTS and name not in outcomes:
        raise GraderError(f"{kind} report: more than {MAX_TESTS} tests")
    outcomes[name] = _worse(outcomes.get(name, "passed"), outcome)


def _worse(one: str, other: str) -> str:
    return max(one, other, key=_WORST.index)


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise GraderError(f"JUnit report: tests={one_line(text, limit=40)!r}, expected a count")
    return int(text)


def _refuse_declarations(*_: object) -> None:
    raise GraderError("JUnit report: has a document type or an entity, expected none")


def _some(outcomes: dict[str, str], kind: str) -> dict[str, str]:
    if not outcomes:
        raise GraderError(f"{kind} report: tells of no test")
    return outcomes
