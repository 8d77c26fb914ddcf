"""`lego wait`: waits until a run has ended and prints a line per change. Reads the run directory and nothing else."""

from __future__ import annotations

import re
import time
from pathlib import Path

import click

from lego_control.ci.outcome import Exit
from lego_core.health.findings import Verdict
from lego_core.health.of_run import diagnose_run
from lego_core.store import RunReader, RunStatus
from lego_harness.errors import UsageError
from lego_harness.text import one_line

LOOK_EVERY_S = 1.0
STOPPED = "stopped by "
"""How the reason for a stop begins, no matter who asked for it."""
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(duration: str) -> float:
    """`90s`, `20m`, `1.5h` or plain seconds. Raises UsageError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", duration)
    if match is None:
        raise UsageError(f"duration {duration!r}: expected a number and s, m or h, as in 20m")
    return float(match[1]) * _UNITS[match[2] or "s"]


def wait_for(run: Path, timeout: str | None) -> int:
    """Wait; the exit code."""
    reader = RunReader(run)
    reader.info()
    ends = time.monotonic() + seconds_of(timeout) if timeout else None
    told = ""
    while (status := reader.status()) is RunStatus.RUNNING:
        if ends is not None and time.monotonic() >= ends:
            click.echo(f"{run.name}: still running after {timeout}", err=True)
            return Exit.INCONCLUSIVE
        told = _tell(reader, told)
        time.sleep(LOOK_EVERY_S if ends is None else min(LOOK_EVERY_S, max(ends - time.monotonic(), 0)))
    return _end(reader, status)


def _tell(reader: RunReader, before: str) -> str:
    verdict = diagnose_run(reader).verdict.value
    if verdict != before:
        steps = reader.steps()
        click.echo(f"{reader.layout.root.name}: step {steps[-1].step if steps else 0}, {verdict}")
    return verdict


def _end(reader: RunReader, status: RunStatus) -> int:
    last = reader.last_status_event()
    reason = str(last.fields.get("reason", "")) if last else ""
    verdict = diagnose_run(reader).verdict
    told = f": {one_line(reason)}" if reason else ""
    click.echo(f"{reader.layout.root.name}: {status.value}, {verdict.value}{told}")
    if verdict is Verdict.COLLAPSED or reason.startswith(STOPPED):
        return Exit.COLLAPSED
    return Exit.PASSED if status is RunStatus.FINISHED else Exit.INCONCLUSIVE
