"""What one look at a run says."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from lego_core.store import RunReader, RunWriter
from lego_tui.glance import Glance, look
from lego_tui.progress import panel
from tests.support.runs import heldout, recipe, step, trajectory

SMALL = {
    "train": {"steps": 10},
    "rollout": {"groups_per_step": 2, "group_size": 4},
    "tasks": {"num_heldout": 8},
    "eval": {"num_tasks": 96, "every": 5},
}


@pytest.fixture
def writer(tmp_path: Path) -> RunWriter:
    return RunWriter.create(tmp_path, recipe(**SMALL))


def glance(writer: RunWriter) -> Glance:
    reader = RunReader(writer.layout.root)
    return look(reader, reader.recipe())


def test_a_run_that_only_just_began_promises_nothing(writer: RunWriter) -> None:
    seen = glance(writer)
    assert (seen.stage, seen.stage_total, seen.seconds_left, seen.total_steps) == ("", 0, None, 10)


def test_the_rollouts_of_a_step_are_counted_and_a_repeated_one_counts_once(writer: RunWriter) -> None:
    writer.event("stage", stage="rollout", step=2)
    for name in ("s00001.g00.r0", "s00002.g00.r0", "s00002.g00.r1", "s00002.g00.r1~1", "e00002.t000.r0"):
        writer.append_trajectory(trajectory(name), step=None)
    seen = glance(writer)
    assert (seen.stage, seen.stage_done, seen.stage_total) == ("rollouts", 2, 8)


def test_an_evaluation_waits_for_no_more_tasks_than_there_are(writer: RunWriter) -> None:
    writer.event("stage", stage="evaluate", step=2)
    writer.append_trajectory(trajectory("e00002.t000.r0"), step=None)
    seen = glance(writer)
    assert (seen.stage, seen.stage_done, seen.stage_total) == ("held-out evaluation", 1, 8)


def test_time_left_is_the_pace_of_the_last_steps_and_the_evaluations_to_come(writer: RunWriter) -> None:
    writer.append_heldout(heldout(0))  # took 10 s; two more are due, after steps 5 and 10
    writer.append_step(step(1, seconds={"total": 100.0}))
    for number in range(2, 5):
        writer.append_step(step(number, seconds={"total": 4.0}))
    assert glance(writer).seconds_left == 6 * (100 + 4 + 4 + 4) / 4 + 2 * 10
    for number in range(5, 11):
        writer.append_step(step(number, seconds={"total": 4.0}))
    writer.append_heldout(heldout(5))
    assert glance(writer).seconds_left == 10
    writer.append_heldout(heldout(10))
    assert glance(writer).seconds_left == 0


def test_an_evaluation_beside_training_is_told_until_it_has_its_result(writer: RunWriter) -> None:
    writer.event("evaluation", step=5)
    writer.event("stage", stage="train", step=6)
    for name in ("e00005.t000.r0", "e00005.t001.r0", "e00000.t000.r0"):
        writer.append_trajectory(trajectory(name), step=None)
    seen = glance(writer)
    assert (seen.stage, seen.stage_total) == ("training", 0)
    assert seen.beside == "held-out evaluation of step 5: 2 of 8 rollouts"
    console = Console(width=100, record=True, file=StringIO())
    console.print(panel(seen))
    assert "beside it  held-out evaluation of step 5" in console.export_text()
    writer.event("stage", stage="evaluate", step=5)  # the trainer waits for it now: it is what goes on
    seen = glance(writer)
    assert (seen.stage_done, seen.stage_total, seen.beside) == (2, 8, "")
    writer.event("stage", stage="rollout", step=7)
    writer.append_heldout(heldout(5))
    assert glance(writer).beside == ""


def test_evaluations_beside_training_take_no_time_of_their_own_but_for_the_last(tmp_path: Path) -> None:
    """Each takes 10 s; after steps 2, 4, 6, 8 and 10."""
    apart = {**SMALL, "eval": {"num_tasks": 96, "every": 2, "engines": 1}}
    writer = RunWriter.create(tmp_path, recipe(**apart))
    writer.append_heldout(heldout(0))
    for number in range(1, 5):
        writer.append_step(step(number, seconds={"total": 9.0}))
    assert glance(writer).seconds_left == 6 * 9 + 10  # four others in 54 s
    for number in range(5, 11):
        writer.append_step(step(number, seconds={"total": 9.0}))
    assert glance(writer).seconds_left == 5 * 10
    for number in (2, 4, 6, 8):
        writer.append_heldout(heldout(number))
    assert glance(writer).seconds_left == 10


def test_a_stage_we_have_no_words_for_is_shown_by_its_name(writer: RunWriter) -> None:
    writer.event("stage", stage="polishing", step=1)
    assert glance(writer).stage == "polishing"
