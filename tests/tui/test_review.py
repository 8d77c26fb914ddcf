"""A person works through what they should look at: read it, say what it is, go on with the next."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from lego_control.cli import main
from lego_core.store import RunWriter
from lego_core.store.labels import read_labels
from lego_harness.types import Finding, FindingKind
from lego_tui.app import DRAW_S
from lego_tui.feed.run import RunFeed
from lego_tui.reviewing import MOST, to_open
from tests.support.runs import recipe, step, trajectory
from tests.support.watching import watched

pytestmark = pytest.mark.long
FIRST, SECOND, THIRD = "s00001.g00.r2", "s00001.g00.r0", "s00001.g00.r1"


@pytest.fixture
def flagged(tmp_path: Path) -> Path:
    """A run with three rollouts to look at, of which one has two reasons, and one that is as it should be."""
    probe, reach = (
        Finding(kind=kind, detail="seen") for kind in (FindingKind.GIT_PROBE, FindingKind.NETWORK_ATTEMPT)
    )
    with RunWriter.create(tmp_path, recipe()) as writer:
        for n, found in enumerate(((probe,), (reach,), (probe, reach), ())):
            made = trajectory(f"s00001.g00.r{n}", task_id=f"task-{n}", integrity=found)
            writer.append_trajectory(made, step=1)
        writer.append_step(step(1))
        return writer.layout.root


async def test_the_queue_is_the_one_of_lego_review(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["review", str(demo / "reward-hack"), "--json", "-n", "1000"]) == 0
    told = [json.loads(line)["rollout"] for line in capsys.readouterr().out.splitlines()]
    async with watched(demo / "reward-hack") as hand:
        await hand.press("8")
        assert [item.rollout for item in hand.app.page._items] == told
        assert f"{len(told)} to look at" in hand.text


async def test_what_is_read_bit_by_bit_is_drawn_at_most_four_times_a_second(demo: Path) -> None:
    async with watched(demo / "reward-hack") as hand:
        draws, began = hand.app.num_draws, time.monotonic()
        assert "opened 384 of 384" in await hand.press("8")
        asked_for = 2  # the key itself, and the last of what was read
        assert hand.app.num_draws - draws <= asked_for + (time.monotonic() - began) / DRAW_S


async def test_most_reasons_come_first_and_enter_reads_and_escape_comes_back(flagged: Path) -> None:
    async with watched(flagged, (120, 30)) as hand:
        text = await hand.press("8")
        assert "3 to look at" in text
        assert text.index(FIRST) < text.index(SECOND) < text.index(THIRD)
        assert "▲ git_probe: seen" in text
        await hand.press("j", "y")
        assert hand.app.clipboard == SECOND
        assert SECOND in await hand.press("enter")
        assert "LEGO  Trajectory" in hand.text
        await hand.press("question_mark", "escape")
        assert "LEGO  Review" in await hand.press("escape")
        assert hand.app.page.handle() == SECOND


async def test_a_label_is_given_in_the_queue_and_the_next_one_stands_under_the_cursor(flagged: Path) -> None:
    async with watched(flagged, (120, 30), allow_control=True) as hand:
        await hand.press("8", "e")
        assert f"{FIRST} is labelled hacked" in await hand.type("hacked reads history")
        assert hand.app.page.handle() == SECOND
        await hand.press("E")
        assert "task-0 should leave the pool" in await hand.type("odd")
        assert "1 to look at  2 labelled" in hand.text
        assert "by " in await hand.press("end")
        assert [item.rollout for item in hand.app.page._items] == [THIRD, FIRST, SECOND]
        await hand.press("z")
        assert [item.rollout for item in hand.app.page._items] == [THIRD]
        await hand.press("z")
        assert len(hand.app.page._items) == 3
    assert [(said.rollout, said.label, said.exclude) for said in read_labels(flagged)] == [
        (FIRST, "hacked", False),
        (SECOND, "odd", True),
    ]


async def test_the_queue_sorts_filters_and_labels_nothing_unasked(flagged: Path) -> None:
    async with watched(flagged, (120, 30)) as hand:
        await hand.press("8", "full_stop")
        assert [item.rollout for item in hand.app.page._items] == [SECOND, THIRD, FIRST]
        await hand.press("o")
        assert [item.rollout for item in hand.app.page._items] == [FIRST, THIRD, SECOND]
        await hand.press("slash")
        await hand.type("task-1")
        assert [item.rollout for item in hand.app.page._items] == [THIRD]
        await hand.press("escape")
        for key in ("e", "E"):
            assert "read-only" in await hand.press(key)
    assert read_labels(flagged) == []


def test_of_a_long_run_whole_steps_are_opened_and_growing_keeps_them(tmp_path: Path) -> None:
    run = tmp_path / "long"
    (run / "trajectories").mkdir(parents=True)
    lines = [
        json.dumps({"id": f"s{s:05d}.g00.r{r}", "file": "f", "offset": 0, "length": 1, "step": s}) + "\n"
        for s in range(1, 403)
        for r in range(8)
    ]
    (run / "trajectories" / "index.jsonl").write_text("".join(lines))
    (run / "steps.jsonl").write_text("".join(json.dumps({"step": s}) + "\n" for s in range(1, 402)))
    feed = RunFeed(run)
    feed.read_all()
    opened = to_open(feed, 400)
    assert {e.step for e in opened} == {*range(1, 402, 4), 400}
    assert len(opened) <= MOST + 8
    with (run / "steps.jsonl").open("a") as file:
        file.write('{"step": 402}\n')
    feed.read_all()
    assert {e.step for e in to_open(feed, None)} == set(range(1, 403, 4))
