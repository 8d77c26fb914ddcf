"""The diagnosis of a run directory: the pure functions, fed from a reader.

Owns what only the directory knows: which policy holds, where the run was resumed, whether the watchdog is alive.
Reads only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lego_core.config import WatchdogPolicy
from lego_core.health.diagnose import diagnose
from lego_core.health.findings import Diagnosis, Finding, Layer, Verdict
from lego_core.health.policy import effective_policy
from lego_core.health.series import Happened, Series, read_series
from lego_core.health.watchdog import HEARTBEAT
from lego_core.store import RunReader

SILENT_STEPS = 2
"""A watchdog that has been silent for this many recorded steps is dead."""


def diagnose_run(
    reader: RunReader, policy: WatchdogPolicy | None = None, *, as_of_step: int | None = None
) -> Diagnosis:
    """The diagnosis of a run, now or as it was at the end of a step. Raises UsageError where the folder is no
    run and InfrastructureError where it is broken."""
    registered = reader.recipe().watchdog
    policy = policy or effective_policy(reader.layout.root, registered)
    series = read_series(reader)
    if as_of_step is not None:
        return diagnose(series.upto(as_of_step), policy)
    return diagnose_now(series, policy, reader.events())


def diagnose_now(series: Series, policy: WatchdogPolicy, events: Sequence[Happened]) -> Diagnosis:
    """The diagnosis at the last step, and whether the watchdog has looked at it; for readers of their own."""
    return with_heartbeat(diagnose(series, policy), last_heartbeat(events))


def last_heartbeat(events: Sequence[Happened]) -> int | None:
    """Step of the watchdog's last word; None when it never spoke."""
    steps = (e.fields.get("step") for e in reversed(events) if e.kind == HEARTBEAT)
    return next((step for step in steps if isinstance(step, int)), None)


def with_heartbeat(diagnosis: Diagnosis, heard: int | None) -> Diagnosis:
    """The same, and whether the watchdog, last heard at step `heard`, has looked at that step."""
    if heard is None:
        if not diagnosis.num_steps:
            return diagnosis
        note = "no watchdog has looked at this run"
        return replace(diagnosis, data_quality=(*diagnosis.data_quality, note))
    silence = diagnosis.as_of_step - heard
    if silence < SILENT_STEPS:
        return diagnosis
    finding = Finding(
        metric="watchdog",
        detector="silent",
        layer=Layer.WARNING,
        value=float(silence),
        threshold=float(SILENT_STEPS),
        since=heard + 1,
        text="the watchdog has stopped looking: nothing would stop this run",
    )
    verdict = Verdict.WATCH if diagnosis.verdict is Verdict.HEALTHY else diagnosis.verdict
    return replace(diagnosis, findings=(*diagnosis.findings, finding), verdict=verdict)
