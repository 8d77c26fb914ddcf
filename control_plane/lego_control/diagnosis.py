"""`lego diagnose`: what the detectors say, for people and for programs.

Contains no text of a model, except in an opinion that was asked for and is marked as one (law 9).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from lego_control.ci.outcome import Exit
from lego_control.options import RUNS
from lego_core.health.findings import Diagnosis, Verdict, number
from lego_core.health.of_run import diagnose_run
from lego_core.store import RunReader, newest_run
from lego_core.store.json_records import to_json
from lego_harness.errors import UsageError

GLYPHS = {Verdict.HEALTHY: "✓", Verdict.WATCH: "▲", Verdict.COLLAPSED: "✖", Verdict.UNKNOWN: "?"}


def tell(
    run: Path | None,
    *,
    for_programs: bool,
    step: int | None,
    assist: str | None,
    assist_model: str | None,
    assist_tokens: int,
) -> int:
    """Diagnose and print; returns the exit code. A collapse is an answer, not a failure: pipelines use `lego check`."""
    reader = RunReader(run or newest_run(RUNS))
    diagnosis = diagnose_run(reader, as_of_step=step)
    if step is not None and diagnosis.as_of_step < step:
        raise UsageError(f"--step {step}: {reader.layout.root} has come to step {diagnosis.as_of_step}")
    opinion = None
    if assist is not None:
        from lego_control.assist import ask

        opinion = ask(reader, diagnosis, assist, model=assist_model, max_tokens=assist_tokens)
    if for_programs:
        extra = {"opinion": to_json(opinion)} if opinion else {}
        click.echo(json.dumps(as_json(diagnosis) | extra, indent=2, allow_nan=False))
    else:
        click.echo("\n".join(lines(reader.layout.root.name, diagnosis)))
        if opinion is not None:
            click.echo(f"\nOpinion of {opinion.model} ({opinion.tokens} tokens; it decides nothing):")
            click.echo("\n".join(f"  | {line}" for line in opinion.text.splitlines()))
    return Exit.PASSED


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """As plain values; numbers that JSON lacks are strings."""
    return to_json(diagnosis) | {"stop_reasons": [f.key for f in diagnosis.stop_reasons]}


def lines(name: str, diagnosis: Diagnosis) -> list[str]:
    """For a person."""
    d = diagnosis
    grace = "; resumed a few steps ago, so nothing but a broken number counts" if d.in_grace else ""
    told = [f"{GLYPHS[d.verdict]} {d.verdict.value}  {name} at step {d.as_of_step}{grace}"]
    told += [f"  {f.layer.value:>9}  {f.line}" for f in d.findings]
    for hypothesis in d.hypotheses[:3]:
        told += [f"\n{hypothesis.name}: {hypothesis.text}", f"  because of {', '.join(hypothesis.evidence)}"]
        told += [f"  → {hypothesis.next_check}"]
    if any(e.n for e in d.evidence):
        told += ["", f"{'':>16} {'first five':>12} {'last five':>12} {'t':>8}"]
        told += [
            f"{e.metric:>16} {number(e.first):>12} {number(e.last):>12} {number(e.t):>8}" for e in d.evidence
        ]
    return told + [f"note: {note}" for note in d.data_quality]
