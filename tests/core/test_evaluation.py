"""Evaluations are of the version they say, and cost the trainer nothing where they have their own engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from lego_core.evaluation import EvaluationEngine, Evaluator
from lego_core.resume import Progress
from lego_core.rollouts.recorded import RecordedRollouts
from lego_core.simulation.parts import MemoryStore
from lego_core.simulation.schedule import Outcome, Schedule, simulate
from lego_core.store import RunLayout
from lego_core.together import task_group
from lego_harness.rollout import RolloutSpec
from tests.support.controller_program import (
    RememberingTrainer,
    ScriptedRollouts,
    example_recipe,
    example_source,
)

ROLLOUT_S, EVALUATION_S, TRAIN_S, STEPS = 10.0, 25.0, 10.0, 9


def outcome(*, max_staleness: int, has_eval_engine: bool) -> Outcome:
    def duration_s(spec: RolloutSpec) -> float:
        return EVALUATION_S if spec.id.startswith("e") else ROLLOUT_S

    return simulate(
        Schedule(
            max_staleness=max_staleness,
            slots=1000,
            groups_per_step=2,
            group_size=4,
            steps=STEPS,
            duration_s=duration_s,
            train_s=TRAIN_S,
            eval_every=3,
            eval_samples=4,
            has_eval_engine=has_eval_engine,
        )
    )


@pytest.mark.parametrize("max_staleness", [0, 1, 3])
@pytest.mark.parametrize("has_eval_engine", [False, True])
def test_an_evaluation_is_sampled_by_the_version_it_names_and_by_no_other(
    max_staleness: int, has_eval_engine: bool
) -> None:
    done = outcome(max_staleness=max_staleness, has_eval_engine=has_eval_engine)
    assert [(record.step, record.n) for record in done.heldout] == [(step, 4) for step in (0, 3, 6, 9)]
    sampled = {name: kept.versions for name, kept in done.rollouts.items() if name.startswith("e")}
    assert sampled == {f"e{step:05d}.t000.r{r}": {step} for step in (0, 3, 6, 9) for r in range(4)}


def test_training_does_not_wait_for_an_evaluation_that_has_an_engine_of_its_own() -> None:
    apart = outcome(max_staleness=1, has_eval_engine=True)
    assert sum(record.seconds["total"] for record in apart.steps) == ROLLOUT_S + STEPS * TRAIN_S
    assert apart.total_s == ROLLOUT_S + STEPS * TRAIN_S + EVALUATION_S  # the last one has nobody beside it
    shared = outcome(max_staleness=1, has_eval_engine=False)
    assert shared.total_s == ROLLOUT_S + STEPS * TRAIN_S + 4 * EVALUATION_S


def test_every_evaluation_says_how_sure_it_is() -> None:
    for record in outcome(max_staleness=0, has_eval_engine=False).heldout:
        rates = record.rates
        assert rates is not None
        assert (rates.k, rates.tasks) == (4, 1)
        assert rates.pass_at_1.value == record.solve_rate
        assert rates.pass_hat_k.value <= rates.pass_at_1.value <= rates.pass_at_k.value
        assert rates.pass_at_1.low <= record.solve_rate <= rates.pass_at_1.high


@pytest.mark.parametrize(
    ("has_engine", "committed", "checkpoints", "expected"),
    [
        (True, 7, (7,), []),
        (True, 7, (3, 7), [3]),
        (True, 7, (3, 6, 7), [3, 6]),
        (True, 6, (6,), [6]),
        (False, 7, (3, 6, 7), []),
        (False, 6, (3, 6), [6]),
    ],
)
def test_after_a_kill_the_evaluations_still_due_are_done_as_far_as_their_weights_are_there(
    tmp_path: Path, has_engine: bool, committed: int, checkpoints: tuple[int, ...], expected: list[int]
) -> None:
    """One every 3 steps; only that of step 0 has its result."""
    store = store_with(tmp_path, checkpoints)
    evaluator = example_evaluator(store, RememberingTrainer() if has_engine else None)
    assert evaluator.missing(progress(committed, evaluated=frozenset({0}))) == expected


def test_a_checkpoint_without_weights_is_not_evaluated_and_version_0_needs_none(tmp_path: Path) -> None:
    store = store_with(tmp_path, (3, 7))
    (store.layout.checkpoint(3) / "model.safetensors").unlink()
    evaluator = example_evaluator(store, RememberingTrainer())
    assert evaluator.missing(progress(7, evaluated=frozenset())) == [0]


class _Engine:
    def __init__(self) -> None:
        self.published: list[tuple[Path, int]] = []

    async def publish(self, weights: Path, version: int) -> None:
        self.published.append((weights, version))


async def test_an_evaluation_engine_is_given_the_weights_alone_and_none_where_it_has_them(
    tmp_path: Path,
) -> None:
    """A checkpoint's optimizer is twice as large as its weights."""
    store, engine = store_with(tmp_path, (3,)), _Engine()
    evaluator = example_evaluator(store, engine)
    async with task_group() as group:
        for step in (0, 3):
            await evaluator.evaluate(step, group)
    assert [record.step for record in store.heldout] == [0, 3]
    assert engine.published == [(store.layout.checkpoint(3) / "model.safetensors", 3)]


def store_with(root: Path, checkpoints: Sequence[int]) -> MemoryStore:
    store = MemoryStore()
    store.layout = RunLayout(root=root)
    for step in checkpoints:
        store.layout.checkpoint(step).mkdir(parents=True)
        for name in ("model.safetensors", "optimizer.pt"):
            (store.layout.checkpoint(step) / name).touch()
    return store


def example_evaluator(store: MemoryStore, engine: EvaluationEngine | None) -> Evaluator:
    return Evaluator(
        recipe=example_recipe(),
        source=example_source(example_recipe()),
        rollouts=RecordedRollouts(rollouts=ScriptedRollouts(), store=store, stored={}),
        writer=cast(Any, store),
        engine=engine,
    )


def progress(committed: int, *, evaluated: frozenset[int]) -> Progress:
    return Progress(committed=committed, checkpoint=None, missing_record=None, stored=(), evaluated=evaluated)
