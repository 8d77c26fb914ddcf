"""A run's step records as arrays: what the detectors read.

Owns the name and the denominator of every column. Invariant: denominators are raw, that is, all rollouts or
groups that were started, before any filter; a share over survivors looks best when most are dead. A value that
was not measured and a measured value that is not a number are different things, and kept apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lego_core.config import Metric
from lego_core.health.rolling import Floats
from lego_core.types import StepRecord

if TYPE_CHECKING:
    from lego_core.store import RunReader

Bools = NDArray[np.bool_]


class Happened(Protocol):
    """An event of a run, from whichever reader."""

    @property
    def kind(self) -> str: ...
    @property
    def fields(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One metric by step."""

    values: Floats
    """`[n]` NaN where not measured or no number."""
    is_broken: Bools
    """`[n]` measured, and NaN or infinite."""

    @property
    def num_measured(self) -> int:
        return int((~np.isnan(self.values) | self.is_broken).sum())


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What a held-out evaluation found."""

    step: int
    solve_rate: float
    n: int
    """Number of independent outcomes in the rate: tasks, or graded rollouts in records that count no tasks. Attempts at
    one task are not independent evidence (`pass_rates.py`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """All metrics of a run, `n` steps."""

    steps: NDArray[np.int64]
    """`[n]` rising."""
    columns: dict[str, Column]
    resumed: tuple[int, ...] = ()
    """Steps that were the first of a resumed run."""
    heldout: tuple[Evaluation, ...] = ()
    """By step; may begin at step 0, before the first record."""

    def __len__(self) -> int:
        return len(self.steps)

    def values(self, metric: str) -> Floats:
        """`[n]` of a metric; all NaN when this run has none."""
        column = self.columns.get(metric)
        return column.values if column else np.full(len(self), np.nan)

    def upto(self, step: int) -> Series:
        """What was known when `step` had ended."""
        keep = int(np.searchsorted(self.steps, step, side="right"))
        return Series(
            steps=self.steps[:keep],
            columns={
                name: Column(values=c.values[:keep], is_broken=c.is_broken[:keep])
                for name, c in self.columns.items()
            },
            resumed=tuple(s for s in self.resumed if s <= step),
            heldout=tuple(e for e in self.heldout if e.step <= step),
        )


COLUMNS: dict[Metric, Callable[[StepRecord], float | None]] = {
    "reward": lambda r: r.reward_mean,
    "rollouts": lambda r: r.rollouts,
    "groups": lambda r: r.groups,
    "graded": lambda r: r.rollouts - _ungraded(r),
    "ungraded": lambda r: _share(_ungraded(r), r.rollouts),
    "zero_variance": lambda r: _share(r.zero_variance_groups, r.groups),
    "response_tokens": lambda r: _share(r.sampled, r.rollouts),
    "turns": lambda r: _stat(r, "turns"),
    "tokens_per_turn": lambda r: r.sampled / turns if (turns := _count(r, "turns")) else None,
    "truncated": lambda r: _stat(r, "truncated"),
    "malformed": lambda r: _malformed(r),
    "silent": lambda r: _stat(r, "silent"),
    "dominated": lambda r: _stat(r, "dominated"),
    "entropy": lambda r: r.entropy,
    "kl_loss": lambda r: r.kl_loss,
    "pearson_r": lambda r: r.pearson_r,
    "mean_abs_dlogp": lambda r: r.mean_abs_dlogp,
    "k3": lambda r: r.k3,
    "grad_norm": lambda r: r.grad_norm,
    "loss": lambda r: r.loss,
    "clip_fraction": lambda r: r.clip_fraction,
    "routing_coverage": lambda r: r.routing_coverage,
    "expert_overlap": lambda r: r.expert_overlap,
    "top1_agreement": lambda r: r.top1_agreement,
    "staleness": lambda r: _staleness(r),
    "unearned": lambda r: _stat(r, "unearned"),
}
"""Name → how it is read off a record; None where the step did not measure it."""


def make_series(
    records: Sequence[StepRecord], resumed: Iterable[int] = (), heldout: Iterable[Evaluation] = ()
) -> Series:
    """Columns of the given records, which are in order of their steps."""
    return from_rows([record.step for record in records], [row_of(r) for r in records], resumed, heldout)


def row_of(record: StepRecord) -> list[float]:
    """`[len(COLUMNS)]` what a record measured, for callers that read records one by one: NaN was not measured,
    an infinity was measured and is not a number."""
    return [_mark(read(record)) for read in COLUMNS.values()]


def from_rows(
    steps: Sequence[int],
    rows: Sequence[Sequence[float]] | Floats,
    resumed: Iterable[int] = (),
    heldout: Iterable[Evaluation] = (),
) -> Series:
    """The series of rows as `row_of` makes them, in order of their steps."""
    table = np.asarray(rows, np.float64).reshape(len(steps), len(COLUMNS))
    return Series(
        steps=np.array(steps, np.int64),
        columns={name: _column(table[:, i]) for i, name in enumerate(COLUMNS)},
        resumed=tuple(resumed),
        heldout=tuple(heldout),
    )


def as_column(values: Iterable[float | None]) -> Column:
    """A column of raw values: None was not measured, NaN and infinities were."""
    return _column(np.array([_mark(v) for v in values], np.float64))


def _mark(value: float | None) -> float:
    return math.nan if value is None else value if math.isfinite(value) else math.inf


def _column(marked: Floats) -> Column:
    is_broken = np.isinf(marked)
    return Column(values=np.where(is_broken, np.nan, marked), is_broken=is_broken)


def read_series(reader: RunReader) -> Series:
    """The series of a run directory. Raises InfrastructureError where a file of it is broken."""
    found = [
        Evaluation(step=r.step, solve_rate=r.solve_rate, n=r.rates.tasks if r.rates else r.n)
        for r in reader.heldout()
    ]
    return make_series(reader.steps(), resumed_steps(reader.events()), found)


def resumed_steps(events: Iterable[Happened]) -> tuple[int, ...]:
    """The first step that was sampled after each resume."""
    found: list[int] = []
    is_waiting = False
    for event in events:
        if event.kind == "started" and event.fields.get("resumed"):
            is_waiting = True
        step = event.fields.get("step")
        if is_waiting and event.kind == "stage" and event.fields.get("stage") == "rollout":
            if isinstance(step, int):
                found.append(step)
            is_waiting = False
    return tuple(found)


def _ungraded(record: StepRecord) -> int:
    return sum(count for reason, count in record.dropped.items() if reason.startswith("ungraded:"))


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _count(record: StepRecord, name: str) -> int:
    return getattr(record.acted, name) if record.acted else 0


def _stat(record: StepRecord, name: str) -> float | None:
    return _share(_count(record, name), record.rollouts) if record.acted else None


def _staleness(record: StepRecord) -> float | None:
    """Mean versions that a sampled token was behind the trainer."""
    tokens = {behind: count for behind, count in record.lag.items() if behind.isdecimal()}
    return _share(sum(int(behind) * count for behind, count in tokens.items()), sum(tokens.values()))


def _malformed(record: StepRecord) -> float | None:
    if record.acted is None:
        return None
    return _share(record.acted.malformed, record.acted.malformed + record.acted.calls)
