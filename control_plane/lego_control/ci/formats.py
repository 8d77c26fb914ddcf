"""A report as JUnit XML, as Markdown for GitHub's step summary and as GitHub's annotations.

Pure functions. Invariants: XML holds no character that XML forbids, whatever a check printed; a summary stays
below GitHub's limit of one mebibyte; at most ten annotations of a kind, since GitHub silently drops the rest.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable

from lego_control.ci.outcome import Outcome, Report, Status, count
from lego_tui.safe import clean

MAX_SUMMARY_BYTES = 2**20 - 2**12
MAX_ANNOTATIONS = 10
_XML_FORBIDS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKS = {
    Status.PASSED: "✓",
    Status.FAILED: "✖",
    Status.WAIVED: "▲",
    Status.SKIPPED: "–",
    Status.ERROR: "!",
}


def junit(report: Report) -> str:
    """One test case per check; one that could not be carried out is an `<error>`, and a waived one says so."""
    outcomes = report.outcomes
    suite = ET.Element(
        "testsuite",
        name=_xml(report.title),
        tests=str(len(outcomes)),
        failures=str(count(outcomes, Status.FAILED)),
        errors=str(count(outcomes, Status.ERROR)),
        skipped=str(count(outcomes, Status.SKIPPED)),
        time=f"{sum(o.seconds for o in outcomes):.3f}",
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in report.properties.items():
        ET.SubElement(properties, "property", name=_xml(name), value=_xml(value))
    for outcome in outcomes:
        _case(suite, report.title, outcome)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, title: str, outcome: Outcome) -> None:
    case = ET.SubElement(
        suite, "testcase", classname=_xml(title), name=_xml(outcome.name), time=f"{outcome.seconds:.3f}"
    )
    kind = {Status.FAILED: "failure", Status.ERROR: "error", Status.SKIPPED: "skipped"}.get(outcome.status)
    if kind:
        ET.SubElement(case, kind, message=_xml(outcome.evidence)).text = _xml(outcome.remedy)
    else:
        prefix = "waived: " if outcome.status is Status.WAIVED else ""
        ET.SubElement(case, "system-out").text = _xml(prefix + outcome.evidence)


def summary(report: Report) -> str:
    """Markdown."""
    lines = [
        f"### {_cell(report.title)}: {report.exit_code.name.lower()}",
        "",
        "| | check | seconds | evidence | what to do |",
        "| --- | --- | --- | --- | --- |",
        *(_row(outcome) for outcome in report.outcomes),
        "",
    ]
    data = "\n".join(lines).encode("utf-8", "replace")
    if len(data) <= MAX_SUMMARY_BYTES:
        return data.decode("utf-8")
    return data[:MAX_SUMMARY_BYTES].decode("utf-8", "ignore") + "\n\n(cut)\n"


def _row(outcome: Outcome) -> str:
    mark = f"{_MARKS[outcome.status]} {outcome.status.value}"
    cells = (mark, outcome.name, f"{outcome.seconds:.1f}", outcome.evidence, outcome.remedy)
    return "| " + " | ".join(map(_cell, cells)) + " |"


def github_annotations(report: Report) -> Iterable[str]:
    """GitHub workflow commands, a line each."""
    for kind, statuses in (
        ("error", (Status.FAILED, Status.ERROR)),
        ("warning", (Status.WAIVED,)),
    ):
        found = [o for o in report.outcomes if o.status in statuses]
        rest = found[MAX_ANNOTATIONS - 1 :] if len(found) > MAX_ANNOTATIONS else []
        for outcome in found[: len(found) - len(rest)]:
            told = f"{outcome.evidence} {outcome.remedy}".strip()
            yield f"::{kind} title={_property(outcome.name)}::{_data(told)}"
        if rest:
            names = ", ".join(o.name for o in rest)
            yield f"::{kind} title={len(rest)} more::{_data(names)}"


def _xml(text: str) -> str:
    return _XML_FORBIDS.sub("\N{REPLACEMENT CHARACTER}", text)


def _cell(text: str) -> str:
    """Text for a Markdown table: no markup, no line break."""
    escaped = "".join(f"&#{ord(char)};" if char in "|<>&`*_[]\\" else char for char in text)
    return " ".join("".join(c if c.isprintable() else " " for c in escaped).split())


def _data(text: str) -> str:
    return clean(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
