"""A real harness against a scripted model, written as a recording."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from lego_harness.errors import UsageError
from lego_harness.sandbox.choose import choose_backend
from lego_harness.wire.recorder import record
from lego_harness.wire.recording import as_lines


def record_harness(harness: str, *, scenario: str, sandbox: str, out: Path) -> int:
    """Record and write; the exit code. Raises UsageError and infrastructure errors."""
    if out.suffix != ".jsonl" or not out.parent.is_dir():
        raise UsageError(f"--out {out}: expected a .jsonl file in a folder that exists")
    calls = asyncio.run(record(harness, scenario, choose_backend(sandbox)))
    try:
        out.write_text(as_lines(calls), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}") from error
    click.echo(f"{len(calls)} requests of {harness} in {out}; look at it with: lego replay {out}")
    return 0
