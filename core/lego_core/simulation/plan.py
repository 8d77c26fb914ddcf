"""`lego plan`: what a recipe would need and how its schedules compare, before a GPU is rented.

    recipe + model + GPUs ─▶ capacity (arithmetic) ─▶ the real controller in virtual time, one run per
    staleness ─▶ step time, idle shares

Owns which schedules are compared and how a step's tokens are estimated. The durations are the paper's
Table 4 unless others are given; they include the speed of its engines, so a plan compares schedules
better than it compares hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from lego_core.config import Recipe
from lego_core.model_config import read_config
from lego_core.simulation.capacity import (
    QWEN35_35B_A3B,
    Capacity,
    Gpu,
    ModelSize,
    model_size,
    plan_capacity,
)
from lego_core.simulation.schedule import Outcome, Schedule, simulate
from lego_core.simulation.stages import TABLE_4, rollout_durations

STALENESS = (0, 1, 2, 4)
STEPS = 12
WARM_UP = 4
"""Steps that fill the pipeline and are not counted."""
SHARE_OF_BUDGET = 0.3
"""Of a rollout's context and token budget that a mean rollout fills: 54k of 200k tokens in the paper's runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleRow:
    """One staleness, simulated."""

    max_staleness: int
    step_s: float
    """Mean over the steps after the warm-up."""
    trainer_idle: float
    engine_idle: float
    slots_in_use: float
    """Mean share of the rollouts that could run at a time."""
    mean_lag: float
    """Versions that a sampled token is behind the trainer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What `lego plan` shows."""

    model: str
    size: ModelSize
    capacity: Capacity
    concurrent: int
    rows: tuple[ScheduleRow, ...]


def make_plan(recipe: Recipe, gpu: Gpu, num_gpus: int, *, concurrent: int | None = None) -> Plan:
    """Plan a recipe; raises UsageError if the model does not fit. `concurrent` replaces the recipe's number of
    rollouts at a time."""
    model, config = _model(recipe)
    size = model_size(config)
    tokens = SHARE_OF_BUDGET * recipe.rollout.max_tokens
    rollouts = recipe.rollout.groups_per_step * recipe.rollout.group_size
    capacity = plan_capacity(
        size,
        gpu,
        num_gpus,
        tokens_per_step=tokens * rollouts,
        context=tokens,
        engine_dtype=recipe.engine.dtype,
    )
    slots = concurrent or recipe.rollout.num_workers * recipe.rollout.concurrency
    rows = tuple(_row(recipe, capacity, slots, staleness) for staleness in STALENESS)
    return Plan(model=model, size=size, capacity=capacity, concurrent=slots, rows=rows)


def _model(recipe: Recipe) -> tuple[str, dict[str, Any]]:
    folder = Path(recipe.model.path)
    if folder.is_dir():
        return folder.name, read_config(folder)
    return "Qwen3.5-35B-A3B", QWEN35_35B_A3B


def _row(recipe: Recipe, capacity: Capacity, slots: int, staleness: int) -> ScheduleRow:
    outcome = simulate(
        Schedule(
            max_staleness=staleness,
            slots=slots,
            groups_per_step=recipe.rollout.groups_per_step,
            group_size=recipe.rollout.group_size,
            steps=STEPS + staleness,
            duration_s=rollout_durations(recipe.run.seed, tuple(TABLE_4.values())),
            train_s=capacity.train_s,
            publish_s=capacity.publish_s,
        )
    )
    return summarise(outcome, staleness, slots)


def summarise(outcome: Outcome, staleness: int, slots: int) -> ScheduleRow:
    """Means over the steps between the first ones, which fill the pipeline, and the last, which drain it."""
    steps = outcome.steps[WARM_UP : len(outcome.steps) - staleness]
    lags = [(int(behind), tokens) for step in steps for behind, tokens in step.lag.items()]
    numbers = {step.step for step in steps}
    used_s = sum(kept.seconds for kept in outcome.rollouts.values() if kept.step in numbers)
    total_s = sum(step.seconds["total"] for step in steps)
    return ScheduleRow(
        max_staleness=staleness,
        step_s=total_s / len(steps),
        slots_in_use=used_s / (slots * total_s),
        trainer_idle=fmean(step.trainer_idle or 0.0 for step in steps),
        engine_idle=fmean(step.engine_idle or 0.0 for step in steps),
        mean_lag=sum(behind * tokens for behind, tokens in lags) / sum(tokens for _, tokens in lags),
    )
