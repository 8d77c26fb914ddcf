"""Where a report goes: the terminal, files a pipeline collects, GitHub's summary and log."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from lego_control.ci.outcome import Exit, Report, Status, as_json
from lego_harness.output import writing

MAX_LINE = 4000
STYLES = {Status.PASSED: "green", Status.FAILED: "red", Status.WAIVED: "yellow", Status.ERROR: "red"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Outputs:
    """What was asked for; None where it was not."""

    junit: Path | None
    json: str | None
    """A file, or `-` for stdout, which then gets nothing else."""
    summary: str | None
    """A file to append to; `auto` is GitHub's if there is one."""


def outputs(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that has a report."""
    for option in (
        click.option(
            "--summary",
            metavar="FILE|auto",
            help="Append a Markdown summary; auto is GitHub's, if there is one.",
        ),
        click.option("--json", "json_file", metavar="FILE|-", help="Write JSON; - is stdout."),
        click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write JUnit XML."),
    ):
        command = option(command)
    return command


def publish(report: Report, wanted: Outputs, extra: dict[str, Any] | None = None) -> int:
    """Write a report to every place; returns its exit code. `extra` is added to the JSON. Raises
    InfrastructureError for a file that cannot be written."""
    from lego_control.ci.formats import github_annotations, junit, summary

    value = json.dumps(as_json(report) | (extra or {}), indent=2, allow_nan=False)
    if wanted.json == "-":
        click.echo(value)
    else:
        _draw(report)
        if wanted.json:
            _write(Path(wanted.json), value + "\n")
    if wanted.junit:
        _write(wanted.junit, junit(report))
    where = os.environ.get("GITHUB_STEP_SUMMARY") if wanted.summary == "auto" else wanted.summary
    if where:
        _write(Path(where), summary(report), mode="a")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in github_annotations(report):
            click.echo(line, err=wanted.json == "-")
    return int(report.exit_code)


def _draw(report: Report) -> None:
    from lego_tui.safe import one_line

    for o in report.outcomes:
        click.secho(f"{o.status.value:>7}", fg=STYLES.get(o.status), nl=False)
        # On one line: GitHub reads commands only at the beginning of a line.
        told = (one_line(part, MAX_LINE) for part in (o.name, f"{o.seconds:.1f} s", o.evidence))
        click.echo("  " + "  ".join(told))
        if o.remedy and o.status in (Status.FAILED, Status.ERROR, Status.WAIVED):
            click.echo("         → " + one_line(o.remedy, MAX_LINE))
    code = report.exit_code
    click.secho(f"{report.title}: {code.name.lower()}", bold=True, fg=None if code is Exit.PASSED else "red")


def _write(path: Path, text: str, mode: str = "w") -> None:
    with writing(path), path.open(mode, encoding="utf-8") as file:
        file.write(text)
