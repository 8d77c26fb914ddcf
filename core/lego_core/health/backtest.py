"""What a policy would have done to a run: the watchdog's rules at the end of every step.

Pure. Owns the definition of when a run would have been stopped; the watchdog itself uses the same
function, one step at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_core.config import WatchdogPolicy
from lego_core.health.diagnose import stop_reasons
from lego_core.health.findings import Finding
from lego_core.health.series import Series


@dataclass(frozen=True, kw_only=True, slots=True)
class Backtest:
    """The first step at which the policy would have stopped a run."""

    stop_step: int | None
    """None: it would have let the run go on to its end."""
    reasons: tuple[Finding, ...]
    num_steps: int


def backtest(series: Series, policy: WatchdogPolicy | None = None) -> Backtest:
    """Replay `series` step by step; whether the policy says `stop` or `warn` makes no difference here."""
    policy = policy or WatchdogPolicy()
    for step in series.steps:
        reasons = stop_reasons(series.upto(int(step)), policy)
        if reasons:
            return Backtest(stop_step=int(step), reasons=reasons, num_steps=len(series))
    return Backtest(stop_step=None, reasons=(), num_steps=len(series))
