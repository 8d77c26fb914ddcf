"""What the controller itself costs a rollout, with 10,000 of them at a time.

    python -m benchmarks.controller    as Markdown

The real controller, source, windows, batching and accounts over simulated rollouts, engines, trainer and store, in
virtual time; durations are the paper's. CPU time is all of it, what is simulated included: an upper bound.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from lego_core.simulation.schedule import Schedule, simulate
from lego_core.simulation.stages import TABLE_4, rollout_durations

AT_ONCE, STEPS = 10_000, 3
AIM = 1000.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """Of one simulated run."""

    rollouts: int
    cpu_s: float
    virtual_s: float


def measure(at_once: int = AT_ONCE, steps: int = STEPS) -> Found:
    """Staleness 1, groups of 8."""
    schedule = Schedule(
        max_staleness=1,
        slots=at_once,
        groups_per_step=at_once // 8,
        group_size=8,
        steps=steps,
        duration_s=rollout_durations(0, tuple(TABLE_4.values())),
        train_s=600.0,
    )
    start = time.process_time()
    outcome = simulate(schedule)
    return Found(rollouts=len(outcome.rollouts), cpu_s=time.process_time() - start, virtual_s=outcome.total_s)


def report(found: Found) -> str:
    """As Markdown."""
    each = found.cpu_s / found.rollouts
    return (
        f"{found.rollouts:,} rollouts, up to {AT_ONCE:,} at a time, {found.virtual_s / 3600:.1f} hours of a run in "
        f"{found.cpu_s:.1f} s of CPU: {each * 1000:.2f} ms a rollout, {1 / each:,.0f} rollouts a second."
    )


def verdicts(found: Found) -> list[tuple[str, bool]]:
    """What was aimed at, and whether it was reached."""
    rate = found.rollouts / found.cpu_s
    return [(f"at least {AIM:,.0f} rollouts a second: {rate:,.0f}", rate >= AIM)]


if __name__ == "__main__":
    measured = measure()
    sys.stdout.write(report(measured) + "\n")
    sys.stdout.writelines(f"- {'reached' if ok else 'MISSED'}: {what}\n" for what, ok in verdicts(measured))
