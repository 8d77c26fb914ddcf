"""A real harness against a scripted model, written as a recording."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryFile

import click

from lego_harness.errors import UsageError
from lego_harness.output import writing
from lego_harness.sandbox.choose import choose_backend
from lego_harness.wire.recorder import record
from lego_harness.wire.recording import as_lines


def record_harness(harness: str, *, scenario: str, sandbox: str, out: Path) -> int:
    """Record and write; returns the exit code. Raises UsageError and infrastructure errors."""
    if out.suffix != ".jsonl":
        raise UsageError(f"--out {out}: expected a .jsonl file")
    with writing(f"--out {out}"), TemporaryFile(dir=out.parent):
        pass  # told before a harness ran for nothing
    calls = asyncio.run(record(harness, scenario, choose_backend(sandbox)))
    with writing(f"--out {out}"):
        out.write_text(as_lines(calls), encoding="utf-8")
    click.echo(f"{len(calls)} requests of {harness} in {out}; look at it with: lego replay {out}")
    return 0
