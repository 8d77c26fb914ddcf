"""Requests to a run: whole or not there, never obeyed late, never in the trainer's way."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_core.store import RunReader, RunWriter
from lego_core.store.mailbox import MAX_REQUEST_BYTES, Asked, Mailbox, post, requests
from lego_harness.errors import InfrastructureError
from tests.support.runs import recipe, write_run


def ask(run: Path, asked: Asked = Asked.STOP, why: str = "because") -> str:
    return post(run, asked, who="ann@host", via="cli", why=why).id


def test_a_request_is_told_once_and_stays_in_the_record(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    mailbox = Mailbox(run)
    first = ask(run)
    assert [request.id for request in mailbox.new()] == [first]
    assert mailbox.new() == ()
    (kept,) = requests(run)
    assert (kept.who, kept.why, kept.asked) == ("ann@host", "because", Asked.STOP)


def test_what_was_asked_of_an_earlier_process_is_not_obeyed_by_this_one(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    ask(run)
    assert Mailbox(run).new() == ()


def test_notes_are_for_the_record_and_do_not_reach_the_trainer(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    mailbox = Mailbox(run)
    ask(run, Asked.NOTE)
    assert mailbox.new() == ()
    assert [request.asked for request in requests(run)] == [Asked.NOTE]


def test_many_who_ask_at_once_are_all_heard(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    mailbox = Mailbox(run)
    threads = [threading.Thread(target=ask, args=(run,)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(mailbox.new()) == len(requests(run)) == 16


@given(junk=st.binary(max_size=200), name=st.sampled_from(["20260102T030405678901Z-0123abcd.json", "x.json"]))
def test_what_is_no_request_does_not_disturb_the_trainer(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes, name: str
) -> None:
    run = tmp_path_factory.mktemp("run")
    mailbox = Mailbox(run)
    (run / "control").mkdir()
    (run / "control" / name).write_bytes(junk)
    assert mailbox.new() == ()
    assert requests(run) == ()


def test_a_request_under_another_name_or_of_any_size_is_passed_over(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    mailbox = Mailbox(run)
    path = run / "control" / f"{ask(run)}.json"
    path.rename(path.with_name("20260102T030405678901Z-0123abcd.json"))
    ask(run, why="x" * MAX_REQUEST_BYTES)
    (run / "control" / "20260102T030405678902Z-0123abcd.json").mkdir()
    os.mkfifo(run / "control" / "20260102T030405678903Z-0123abcd.json")
    assert mailbox.new() == ()


def test_who_cannot_write_there_is_told_so(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    (run / "control").write_text("no folder")
    with pytest.raises(InfrastructureError, match="ask as a user who may write"):
        ask(run)


def test_a_run_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot be left there"):
        ask(tmp_path / "gone")
    assert requests(tmp_path / "gone") == ()


def test_a_writer_hears_what_is_asked_from_its_first_moment(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, recipe()) as writer:
        ask(writer.layout.root)
        assert len(writer.mailbox.new()) == 1
    assert RunReader(writer.layout.root).status() == "finished"
