"""Is a candidate better than a baseline? Paired by task, with an interval, and allowed not to know.

Pure functions, apart from reading two runs. The interval is Student's over the tasks' differences: tasks are the
sample, rollouts of one task are averaged first. Invariant: never more certain than the number of tasks allows;
with too few of them, or an interval that contains the required effect, the answer is *inconclusive*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

from lego_control.ci.outcome import Status
from lego_core.store import IndexEntry, RunReader
from lego_harness.errors import UsageError

MIN_TASKS = 10
METRICS = ("solve_rate", "reward", "tokens")


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Candidate minus baseline over the tasks that both have."""

    num_tasks: int
    effect: float
    low: float
    high: float


def compare(
    candidate: Mapping[str, float], baseline: Mapping[str, float], *, confidence: float
) -> Comparison:
    """The mean difference with its interval; infinite with fewer than ten common tasks."""
    differences = [candidate[task] - baseline[task] for task in sorted(candidate.keys() & baseline.keys())]
    n = len(differences)
    effect = fmean(differences) if n else math.nan
    if n < MIN_TASKS:
        return Comparison(num_tasks=n, effect=effect, low=-math.inf, high=math.inf)
    # Tasks that all agree are no proof that none disagrees: of n, a share of −ln(1 − c)/n may (rule of three).
    scale = max(1.0, *(abs(v) for v in (*candidate.values(), *baseline.values())))
    unseen = -math.log(1 - confidence) / n * (1.0 if scale <= 1 else 0.0)
    half = max(t_quantile((1 + confidence) / 2, n - 1) * stdev(differences) / math.sqrt(n), unseen)
    return Comparison(num_tasks=n, effect=effect, low=effect - half, high=effect + half)


def decide(comparison: Comparison, min_effect: float) -> Status:
    """Passed when the whole interval reaches `min_effect`, failed when none of it does, else an error:
    inconclusive. A negative `min_effect` asks whether the candidate is worse by at most that much."""
    if comparison.low >= min_effect:
        return Status.PASSED
    return Status.FAILED if comparison.high < min_effect else Status.ERROR


def t_quantile(p: float, df: int) -> float:
    """Student's quantile by the Cornish–Fisher expansion; within 1e-3 from nine degrees of freedom on
    (Abramowitz and Stegun, 26.7.5)."""
    z = NormalDist().inv_cdf(p)
    return (
        z
        + (z**3 + z) / (4 * df)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * df**3)
    )


def by_task(reader: RunReader, metric: str) -> dict[str, float]:
    """Mean of a metric by task over the graded rollouts of the last evaluation. Raises UsageError when the
    run has none."""
    reader.info()
    records = reader.heldout()
    if not records:
        raise UsageError(f"{reader.layout.root} has no held-out evaluation; wait for one, or set eval.every")
    prefix = f"e{records[-1].step:05d}."
    values: dict[str, list[float]] = {}
    for entry in reader.trajectory_index():
        if entry.id.startswith(prefix) and entry.reward is not None:
            values.setdefault(entry.task, []).append(_value(entry, entry.reward, metric))
    return {task: fmean(found) for task, found in values.items()}


def _value(entry: IndexEntry, reward: float, metric: str) -> float:
    return {"solve_rate": float(reward >= 1.0), "reward": reward, "tokens": float(entry.sampled)}[metric]


def words(comparison: Comparison, confidence: float) -> str:
    """A comparison in one line."""
    if comparison.num_tasks < MIN_TASKS:
        return f"{comparison.num_tasks} common tasks, expected at least {MIN_TASKS}"
    c = comparison
    return f"{c.effect:+.4g}, {confidence:.0%} interval {c.low:+.4g} to {c.high:+.4g}, {c.num_tasks} tasks"


def unpaired(candidate: Mapping[str, float], baseline: Mapping[str, float]) -> Sequence[str]:
    """Tasks that only one of the two has."""
    return sorted(candidate.keys() ^ baseline.keys())
