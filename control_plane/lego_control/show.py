"""A run for programs (JSON) and for people (a table and a curve). Reads the run directory only."""

from __future__ import annotations

import json
import math
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lego_core.pass_rates import Rate
from lego_core.store import RunReader
from lego_core.store.json_records import to_json
from lego_core.types import HeldoutRecord, StepRecord
from lego_tui.progress import signal
from lego_tui.safe import clean, one_line
from lego_tui.words import chart, number, percent, small

STEP_FIELDS = (
    "step",
    "policy_version",
    "reward_mean",
    "solved",
    "groups",
    "zero_variance_groups",
    "pearson_r",
    "mean_abs_dlogp",
    "k3",
    "routing_coverage",
    "sampled",
    "trained",
    "masked",
    "dropped",
    "tokens_per_s",
    "seconds",
    "lag",
    "trainer_idle",
    "engine_idle",
)
HELDOUT_FIELDS = ("step", "solve_rate", "n", "rates")


def as_json(reader: RunReader) -> str:
    """The run as one JSON object; numbers that JSON lacks are null."""
    value = {
        "run": str(reader.layout.root.resolve()),
        "status": reader.status().value,
        "steps": [_fields(record, STEP_FIELDS) for record in reader.steps()],
        "heldout": [_fields(record, HELDOUT_FIELDS) for record in reader.heldout()],
        "config": reader.recipe().model_dump(mode="json"),
    }
    return json.dumps(value, indent=2, allow_nan=False)


def _fields(record: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _finite(getattr(record, name)) for name in names}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else to_json(value)


def draw(reader: RunReader, console: Console) -> None:
    """The run on a terminal."""
    info, steps = reader.info(), reader.steps()
    console.print(Text.assemble((clean(reader.layout.root), "bold"), f"  {_status(reader)}"), soft_wrap=True)
    recipe = reader.recipe()
    console.print(
        f"{recipe.harness.name}, seed {recipe.run.seed}, {len(steps)} of {recipe.train.steps} steps, started {info.created[:19]} UTC"
    )
    if steps:
        console.print(_step_table(steps))
        console.print(Text("\nmean reward by step"))
        for line in chart([record.reward_mean for record in steps], width=max(console.width - 6, 20)):
            console.print(Text(line), no_wrap=True)
    for record in reader.heldout():
        rate = Text(percent(record.solve_rate), "bold")
        console.print(
            Text.assemble(f"held-out at step {record.step}: ", rate, f" of {record.n} solved", _rates(record))
        )


def _status(reader: RunReader) -> str:
    status, last = reader.status(), reader.last_status_event()
    reason = one_line(last.fields.get("reason", "")) if last and last.kind == status else ""
    return f"{status.value}: {reason}" if reason else status.value


def _rates(record: HeldoutRecord) -> str:
    """How certain a solve rate is, and how often some or all of several attempts solve a task."""
    rates = record.rates
    if rates is None:
        return ""
    sure = f" ({_interval(rates.pass_at_1)})"
    if rates.k == 1:
        return sure
    several = (f"pass@{rates.k}", rates.pass_at_k), (f"pass^{rates.k}", rates.pass_hat_k)
    return sure + "".join(f", {name} {percent(r.value)} ({_interval(r)})" for name, r in several)


def _interval(rate: Rate) -> str:
    return f"{100 * rate.low:.0f}–{percent(rate.high)}"


def _idle(record: StepRecord) -> str:
    """Shares of the step in which trainer and engines had nothing to do."""
    return f"{percent(record.trainer_idle)} {percent(record.engine_idle)}"


def _step_table(steps: tuple[StepRecord, ...]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 1), pad_edge=False)
    for name in (
        "step",
        "reward",
        "solved",
        "signal",
        "r",
        "|Δlogp|",
        "k3",
        "routes",
        "trained",
        "dropped",
        "tok/s",
        "idle t e",
        "s",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for record in steps:
        table.add_row(
            str(record.step),
            number(record.reward_mean),
            f"{record.solved}/{record.rollouts}",
            signal(record),
            number(record.pearson_r, 5),
            small(record.mean_abs_dlogp),
            small(record.k3),
            number(record.routing_coverage, 2),
            f"{record.trained}/{record.sampled}",
            str(sum(record.dropped.values())),
            f"{record.tokens_per_s:.0f}",
            _idle(record),
            f"{record.seconds.get('total', 0.0):.0f}",
        )
    return table
