"""What one look at a run says, as plain values.

Owns the numbers a person is shown while a run goes on: how far it is, how it does, how long it will
take. Pure: a function of a `RunReader`. Draws nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lego_core.config import Recipe
from lego_core.store import Event, RunReader
from lego_core.types import HeldoutRecord, StepRecord

STAGES = {
    "tasks": "preparing and proving the tasks",
    "policy": "preparing the policy",
    "engine": "starting engine, trainer and workers",
    "rollout": "rollouts",
    "evaluate": "held-out evaluation",
    "train": "training",
}
"""Stage event → words; a stage without an entry is shown by its own name."""
_RECENT = 5
"""Steps the pace is taken from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Glance:
    """A run at one moment."""

    name: str
    stage: str
    """In words; empty before the first stage and after the last."""
    stage_done: int
    """Rollouts of the current stage that are recorded."""
    stage_total: int
    """Rollouts the current stage waits for; 0 in a stage without any."""
    beside: str
    """The evaluation that runs alongside training, in words; empty without one."""
    total_steps: int
    steps: tuple[StepRecord, ...]
    heldout: tuple[HeldoutRecord, ...]
    seconds_left: float | None
    """None until a step has shown the pace."""


def look(reader: RunReader, recipe: Recipe) -> Glance:
    """Look at a run once. Raises InfrastructureError if one of its files is broken."""
    steps, heldout = reader.steps(), reader.heldout()
    events = reader.events()
    stage = next((event for event in reversed(events) if event.kind == "stage"), None)
    done, total = _rollouts(reader, recipe, stage, _text(stage, "stage"))
    is_evaluating = _text(stage, "stage") == "evaluate"
    return Glance(
        name=reader.layout.root.name,
        stage=STAGES.get(_text(stage, "stage"), _text(stage, "stage")),
        stage_done=done,
        stage_total=total,
        beside="" if is_evaluating else _beside(reader, recipe, events, heldout),
        total_steps=recipe.train.steps,
        steps=steps,
        heldout=heldout,
        seconds_left=_seconds_left(recipe, steps, heldout),
    )


def _text(event: Event | None, field: str) -> str:
    return str(event.fields.get(field, "")) if event else ""


def _beside(
    reader: RunReader, recipe: Recipe, events: Sequence[Event], heldout: Sequence[HeldoutRecord]
) -> str:
    begun = next((event for event in reversed(events) if event.kind == "evaluation"), None)
    step = begun.fields.get("step") if begun else None
    if not isinstance(step, int) or any(record.step == step for record in heldout):
        return ""
    done, total = _rollouts(reader, recipe, begun, "evaluate")
    return f"{STAGES['evaluate']} of step {step}: {done} of {total} rollouts"


def _rollouts(reader: RunReader, recipe: Recipe, event: Event | None, kind: str) -> tuple[int, int]:
    """Recorded and expected rollouts of a stage that samples; a repeated rollout counts once."""
    step = event.fields.get("step") if event else None
    if not isinstance(step, int) or kind not in ("rollout", "evaluate"):
        return 0, 0
    if kind == "rollout":
        prefix, total = f"s{step:05d}.", recipe.rollout.groups_per_step * recipe.rollout.group_size
    else:
        prefix, tasks = f"e{step:05d}.", min(recipe.eval.num_tasks, recipe.tasks.num_heldout)
        total = tasks * recipe.eval.num_samples
    ids = {entry.id.partition("~")[0] for entry in reader.trajectory_index() if entry.id.startswith(prefix)}
    return len(ids), total


def _seconds_left(
    recipe: Recipe, steps: Sequence[StepRecord], heldout: Sequence[HeldoutRecord]
) -> float | None:
    """Pace of the last steps and of the last evaluation, times what is still to come. With an engine of their
    own all evaluations but the last go on while it trains, or while it would have."""
    if not steps:
        return None
    recent = [record.seconds.get("total", 0.0) for record in steps[-_RECENT:]]
    last, total = steps[-1].step, recipe.train.steps
    every = recipe.eval.every
    due = {total} | (set(range(every, total + 1, every)) if every else set[int]())
    missing = due - {record.step for record in heldout}
    evaluations = len([step for step in missing if step >= last or recipe.eval.engines])
    evaluation_s = heldout[-1].seconds if heldout else 0.0
    training_s = max(total - last, 0) * sum(recent) / len(recent)
    if not recipe.eval.engines or not evaluations:
        return training_s + evaluations * evaluation_s
    return max(training_s, (evaluations - 1) * evaluation_s) + evaluation_s
