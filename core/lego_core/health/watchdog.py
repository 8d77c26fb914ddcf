"""The watchdog in the trainer's process: the only program that may decide to stop a run (law 9).

    step record ──▶ detectors ──▶ events: `watchdog` (heartbeat), `alert` (raised, cleared)
                        │
                        └── policy says `stop` ──▶ the controller commits, publishes and ends with exit code 4

Invariants: only what `diagnose` calls an invariant or a drop is a reason to stop, and only under `action = "stop"`;
a backtest decides by the same rules; a failure of the watchdog itself is an event and never ends the run. It only
says why a run should stop: the controller stops it. `lego_core.health.of_run` watches the heartbeat from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from lego_core.config import WatchdogPolicy
from lego_core.health.diagnose import diagnose
from lego_core.health.findings import Diagnosis, Finding
from lego_core.health.policy import effective_policy
from lego_core.health.series import make_series
from lego_core.types import StepRecord

HEARTBEAT, ALERT, FAILED = "watchdog", "alert", "watchdog_failed"
"""The kinds of events it writes."""


class Events(Protocol):
    """Where it writes: a `RunWriter`."""

    def event(self, kind: str, **fields: Any) -> None: ...


class Watchdog:
    """Looks at each step once: after its numbers are known, before it is committed."""

    def __init__(
        self,
        events: Events,
        run_dir: Path,
        registered: WatchdogPolicy,
        *,
        past: Sequence[StepRecord] = (),
        resumed: Sequence[int] = (),
    ) -> None:
        """`past` are the committed steps of a run that is resumed, `resumed` the steps at which it was resumed before."""
        self._events, self._run_dir, self._registered = events, run_dir, registered
        self._records = list(past)
        self._resumed = (*resumed, past[-1].step + 1) if past else tuple(resumed)
        self._raised: dict[tuple[str, str], Finding] = {}

    def after_step(self, record: StepRecord) -> str:
        """Why the run has to stop now; empty if it goes on."""
        self._records.append(record)
        try:
            policy = effective_policy(self._run_dir, self._registered)
            diagnosis = diagnose(make_series(self._records, self._resumed), policy)
        except Exception as error:  # noqa: BLE001  a bug in here must not cost a run
            self._events.event(FAILED, step=record.step, error=f"{type(error).__name__}: {error}")
            return ""
        stops = policy.action == "stop" and bool(diagnosis.stop_reasons)
        self._tell(record.step, diagnosis, policy, stops)
        return _reason(record.step, diagnosis.stop_reasons) if stops else ""

    def _tell(self, step: int, diagnosis: Diagnosis, policy: WatchdogPolicy, stops: bool) -> None:
        now = {(f.metric, f.detector): f for f in diagnosis.findings}
        for key, finding in now.items():
            if key not in self._raised:
                self._alert("raised", step, finding)
        for key, finding in self._raised.items():
            if key not in now:
                self._alert("cleared", step, finding)
        self._raised = now
        verdict = diagnosis.verdict.value
        self._events.event(HEARTBEAT, step=step, verdict=verdict, action=policy.action, stops=stops)

    def _alert(self, state: str, step: int, finding: Finding) -> None:
        self._events.event(
            ALERT,
            state=state,
            step=step,
            metric=finding.metric,
            detector=finding.detector,
            layer=finding.layer.value,
            value=finding.value,
            threshold=finding.threshold,
            since=finding.since,
            text=finding.text,
        )


def _reason(step: int, reasons: Sequence[Finding]) -> str:
    told = "; ".join(f"{f.text} since step {f.since}" for f in reasons)
    return f"stopped by the watchdog behind step {step}: {told}"
