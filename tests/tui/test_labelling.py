"""A person says what a rollout is where they read it, and pool and reports hear of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lego_control.cli import main
from lego_core.store.labels import MAX_NOTE, read_labels
from tests.support.runs import write_run
from tests.support.watching import watched

pytestmark = pytest.mark.long

ROLLOUT = "s00002.g00.r0"


async def test_e_labels_what_is_read_with_a_reason_and_it_stands_above_the_rollout(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    async with watched(run, (140, 45), allow_control=True) as hand:
        await hand.press("colon")
        assert "labelled" not in await hand.type(f"open {ROLLOUT}")
        assert "fine · hacked · broken_task" in await hand.press("e")
        text = await hand.type("hack edits the test")
        assert f"{ROLLOUT} is labelled hacked" in text
        assert "  labelled hacked   [conversation]" in text
    (said,) = read_labels(run)
    assert (said.rollout, said.label, said.exclude, said.note) == (ROLLOUT, "hacked", False, "edits the test")
    assert said.who
    assert said.time


async def test_capital_e_excludes_the_task_and_a_newer_label_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path)
    async with watched(run, (140, 45), allow_control=True) as hand:
        await hand.press("colon")
        await hand.type(f"open {ROLLOUT}")
        await hand.press("E")
        text = await hand.type("odd seen")
        assert "ops-0001 should leave the pool" in text
        assert "labelled odd (exclude)" in text
        await hand.press("e")
        assert "labelled fine   [" in await hand.type("fine")
    assert main(["review", str(run), "--export", str(tmp_path / "labels.jsonl")]) == 0
    told = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert [(one["label"], one["exclude"], len(one["note"])) for one in told] == [
        ("odd", True, len("seen")),
        ("fine", False, 0),
    ]


async def test_a_label_given_elsewhere_is_seen(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    assert main(["review", str(run), "--label", ROLLOUT, "--as", "broken_grader"]) == 0
    async with watched(run, (140, 45)) as hand:
        await hand.press("colon")
        assert "labelled broken_grader" in await hand.type(f"open {ROLLOUT}")


@pytest.mark.parametrize("typed", ["broken", "excellent", " ", "\x1b[31m"])
async def test_what_is_no_label_is_refused(tmp_path: Path, typed: str) -> None:
    run = write_run(tmp_path)
    async with watched(run, (140, 45), allow_control=True) as hand:
        await hand.press("4")
        page = hand.app.page
        assert "nothing was labelled" in page.label(typed, exclude=False)  # type: ignore[attr-defined] (the screen at hand is known to the test only)
    assert read_labels(run) == []


def test_a_note_is_cut(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    note = ["--label", ROLLOUT, "--as", "odd", "--note", "x" * (MAX_NOTE + 5)]
    assert main(["review", str(run), *note]) == 0
    assert [len(said.note) for said in read_labels(run)] == [MAX_NOTE]


async def test_a_run_that_may_not_be_written_says_so(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    (run / "review.jsonl").mkdir()
    async with watched(run, (300, 30), allow_control=True) as hand:
        await hand.press("4", "e")
        assert "the label cannot be written: " in await hand.type("fine")


async def test_without_allow_control_nothing_is_labelled(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    async with watched(run, (140, 45)) as hand:
        await hand.press("4")
        for key in ("e", "E"):
            assert "read-only" in await hand.press(key)
    assert read_labels(run) == []
