"""Steps that a resume threw away are no part of the run, for whoever reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_control.report.source import Source
from lego_core.health.of_run import diagnose_run
from lego_core.health.watchdog import HEARTBEAT
from lego_core.store import RunReader, RunWriter
from lego_core.store.index import RunIndex
from lego_core.store.json_records import encode
from lego_tui.feed.run import RunFeed
from lego_tui.glance import look
from lego_tui.tail_lines import news
from tests.support.runs import recipe, step, trajectory


def _written(folder: Path, numbers: list[int]) -> Path:
    """A run whose line `i` has the loss `i`."""
    (folder / "run.json").write_text("{}")
    lines = (encode(step(number, loss=float(i))) + b"\n" for i, number in enumerate(numbers))
    (folder / "steps.jsonl").write_bytes(b"".join(lines))
    return folder


def _left(numbers: list[int]) -> list[tuple[int, float]]:
    """A line counts unless a later one is of its step or of an earlier one."""
    return [(n, float(i)) for i, n in enumerate(numbers) if all(n < later for later in numbers[i + 1 :])]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 12))
def test_a_line_discards_what_was_said_of_its_step_and_of_later_ones(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], looked_at: int
) -> None:
    run = _written(tmp_path_factory.mktemp("run"), numbers[:looked_at])
    reader, feed, index = RunReader(run), RunFeed(run), RunIndex(run, run)
    for known in (numbers[:looked_at], numbers):
        _written(run, known)
        feed.poll()
        index.refresh("steps")
        losses = feed.steps.series("loss").tolist()
        assert [(r.step, r.loss) for r in reader.steps()] == _left(known)
        assert list(zip(feed.steps.steps, losses, strict=True)) == _left(known)
        assert index.series("loss") == _left(known)
        assert feed.diagnosis.num_steps == len(_left(known))
    index.close()


def _resumed(tmp_path: Path) -> RunWriter:
    """Killed behind step 17 of 20, resumed from 10, stopped behind 12: each step takes 10 s, of the attempt that was
    thrown away 1000 s."""
    writer = RunWriter.create(tmp_path, recipe(train={"steps": 20}, eval={"every": 0}))
    for number in range(1, 18):
        writer.append_trajectory(trajectory(f"s{number:05d}.g00.r0"), step=number)
    for line, number in enumerate((*range(1, 18), 11, 12)):
        writer.append_step(step(number, seconds={"total": 1000.0 if 10 <= line < 17 else 10.0}))
        writer.event(HEARTBEAT, step=number)
    return writer


def test_a_run_that_goes_on_from_an_older_checkpoint_has_a_watchdog_and_an_honest_end(tmp_path: Path) -> None:
    with _resumed(tmp_path) as writer:
        reader = RunReader(writer.layout.root)
        assert [record.step for record in reader.steps()] == list(range(1, 13))
        diagnosis = diagnose_run(reader)
        assert (diagnosis.as_of_step, [f.metric for f in diagnosis.findings]) == (12, [])
        assert look(reader, reader.recipe()).seconds_left == 8 * 10.0


def test_a_report_counts_no_rollout_that_no_weights_saw(tmp_path: Path) -> None:
    with _resumed(tmp_path) as writer:
        source = Source(writer.layout.root)
    assert {entry.step for entry in source.trained} == set(range(1, 13))


def test_a_tail_goes_on_with_the_steps_that_are_done_again(tmp_path: Path) -> None:
    writer = RunWriter.create(tmp_path, recipe())
    for number in range(1, 6):
        writer.append_step(step(number))
    to_come = [(2,), (3, 4)]

    def wait(_: float) -> None:
        for number in to_come.pop(0):
            writer.append_step(step(number))
        if not to_come:
            writer.close("finished")

    told = news(RunFeed(writer.layout.root), last=None, follow=True, wait=wait)
    assert [item.fields["step"] for item in told if item.kind == "step"] == [1, 2, 3, 4, 5, 3, 4]
