"""Which runs there are, and how one is doing: numbers and words of ours, no text of a model (law 9)."""

from __future__ import annotations

import math
import statistics
import time
from itertools import islice
from typing import Any

import numpy as np

from lego_control.failures import Refusal
from lego_control.run import Run
from lego_control.runs import Runs
from lego_control.schemas import Asked, Heldout, RunRow, RunsList, RunStatus
from lego_control.tools.paging import page, place
from lego_control.verdict import verdict
from lego_core.health.rolling import rolling_median
from lego_core.store.mailbox import Asked as Kind
from lego_harness.errors import InfrastructureError

SIGNALS = (
    "reward_mean", "solved", "rollouts", "entropy", "grad_norm", "clip_fraction", "kl_loss", "k3", "pearson_r",
    "mean_abs_dlogp", "routing_coverage", "tokens_per_s", "zero_variance_groups", "groups",
)  # fmt: skip
STAGES = ("rollout", "train", "checkpoint", "sync")
"""The stages of a step, as the controller times them; nothing else that a file calls a stage counts."""
WINDOW = 15
RECENT = 20


def runs_list(
    runs: Runs, status: str | None = None, query: str = "", limit: int = 20, cursor: str | None = None
) -> RunsList:
    """Newest first; `status` and a part of the name narrow the list."""
    start = place(cursor)
    rows = (row(runs, name) for name in runs.names() if query.lower() in name.lower())
    matching = (found for found in rows if status in (None, found.state))
    taken, following = page(islice(matching, start, None), start, limit)
    return RunsList(runs=taken, next_cursor=following)


def row(runs: Runs, name: str) -> RunRow:
    """One line about a run; a run that cannot be read has one, too."""
    try:
        run = runs.get(name)
        run.index.refresh("steps", "events")
        step = last_step(run)
        reward = finite(value_at(run, "reward_mean", step))
        return RunRow(
            run=name,
            state=run.state(),
            step=step,
            num_steps=run.num_steps(),
            reward=reward,
            stale_s=run.stale_s(),
        )
    except (Refusal, InfrastructureError, OSError):
        return RunRow(run=name, state="unreadable", step=0, num_steps=0, reward=None, stale_s=0.0)


def run_status(runs: Runs, run: str) -> RunStatus:
    """The one-call check-in."""
    found = runs.get(run)
    found.index.refresh("steps", "heldout", "events")
    step, state = last_step(found), found.state()
    stage, share = _bottleneck(found, step)
    checkpoint = found.index.rows(
        "SELECT step, time FROM event WHERE kind = 'checkpoint' ORDER BY seq DESC LIMIT 1"
    )
    step_s = _step_s(found, step)
    left = max(found.num_steps() - step, 0)
    asked = found.asked()[-5:]
    return RunStatus(
        run=run,
        state=state,
        step=step,
        num_steps=found.num_steps(),
        eta_s=round(left * step_s, 1) if step_s is not None and state == "running" else None,
        step_s=step_s,
        verdict=verdict(found),
        signals={key: finite(value_at(found, key, step)) for key in SIGNALS},
        reward_best=found.once_per_step("best", lambda: _best(found)),
        bottleneck=stage,
        bottleneck_share=share,
        checkpoint_step=checkpoint[0][0] if checkpoint else None,
        checkpoint_age_s=round(time.time() - checkpoint[0][1], 1) if checkpoint else None,
        heldout=_heldout(found),
        asked=[
            Asked(request=a.request.id, asked=a.request.asked.value, outcome=a.outcome, step=a.step)
            for a in asked
        ],
        num_notes=sum(request.asked is Kind.NOTE for request in found.requests()),
        num_alerts=_count(found, "warning", "alert"),
        as_of_step=step,
        stale_s=found.stale_s(),
        warnings=_warnings(found, step, state),
    )


def last_step(run: Run) -> int:
    """The last recorded step; 0 before the first."""
    return int(run.index.rows("SELECT COALESCE(MAX(step), 0) FROM metric WHERE key = 'rollouts'")[0][0])


def value_at(run: Run, key: str, step: int) -> float | None:
    """A metric at a step; None where it has none."""
    found = run.index.series(key, step, step)
    return found[0][1] if found else None


def finite(value: float | None) -> float | None:
    """JSON has no NaN: a value that is not a number becomes null, and a warning says so."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def _best(run: Run) -> float | None:
    values = [
        value for _, value in run.index.series("reward_mean") if value is not None and math.isfinite(value)
    ]
    if not values:
        return None
    medians = rolling_median(np.array(values), WINDOW, min(WINDOW, len(values)))
    return round(float(medians.max()), 6)


def _step_s(run: Run, step: int) -> float | None:
    found = [
        v
        for _, v in run.index.series("seconds.total", step - RECENT + 1, step)
        if v is not None and math.isfinite(v)
    ]
    return round(statistics.median(found), 3) if found else None


def _bottleneck(run: Run, step: int) -> tuple[str | None, float | None]:
    found = {stage: value_at(run, f"seconds.{stage}", step) for stage in STAGES}
    known = {
        stage: seconds for stage, seconds in found.items() if seconds is not None and math.isfinite(seconds)
    }
    total = sum(known.values())
    if total <= 0:
        return None, None
    longest = max(known, key=lambda stage: known[stage])
    return longest, round(known[longest] / total, 3)


def _heldout(run: Run) -> list[Heldout]:
    found = run.index.rows("SELECT step, value FROM heldout WHERE key = 'solve_rate' ORDER BY step")
    shown = [*found[:1], *found[-4:]] if len(found) > 5 else found
    return [Heldout(step=step, solve_rate=finite(_number(value))) for step, value in shown]


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _count(run: Run, *kinds: str) -> int:
    return len(run.events(*kinds))


def _warnings(run: Run, step: int, state: str) -> list[str]:
    told: list[str] = []
    if bad := run.index.num_bad_lines():
        told.append(f"{bad} lines of the run's files are no records and were passed over")
    broken = [
        key for key in SIGNALS if (value := value_at(run, key, step)) is not None and not math.isfinite(value)
    ]
    if broken:
        told.append(f"not a finite number at step {step}: {', '.join(broken)}")
    step_s = _step_s(run, step)
    if state == "running" and step_s is not None and run.stale_s() > max(600.0, 5 * step_s):
        told.append("nothing was written for more than five steps' time: is the trainer hung?")
    return told
