"""The index says what the JSONL files say, whatever happened to them or to it."""

from __future__ import annotations

import json
import math
import multiprocessing
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_core.store.index import RunIndex, private_folder
from lego_core.store.json_records import encode
from lego_harness.errors import InfrastructureError, UsageError
from tests.support.runs import step, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs")


@pytest.fixture
def index(run: Path, tmp_path: Path) -> Iterator[RunIndex]:
    index = RunIndex(run, _folder(tmp_path))
    yield index
    index.close()


def _folder(tmp_path: Path) -> Path:
    (tmp_path / "index").mkdir(exist_ok=True)
    return tmp_path / "index"


def test_numbers_beyond_those_of_sqlite_are_beyond_every_step(index: RunIndex) -> None:
    index.refresh()
    assert len(index.series("reward_mean", -(10**30), 10**30)) == 3
    assert index.series("reward_mean", 10**30, 10**40) == []


def test_an_index_that_cannot_be_kept_is_an_error_that_says_where(run: Path, tmp_path: Path) -> None:
    index = RunIndex(run, _folder(tmp_path))
    index.path.mkdir()
    for use in (index.refresh, index.num_bad_lines):
        with pytest.raises(InfrastructureError, match="set LEGO_INDEX"):
            use()


def append(path: Path, *lines: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(lines))


def rewards(index: RunIndex) -> list[tuple[int, float | None]]:
    index.refresh("steps")
    return index.series("reward_mean")


def test_it_holds_metrics_evaluations_events_and_trajectories(index: RunIndex) -> None:
    index.refresh()
    assert rewards(index) == [(1, 0.1), (2, 0.2), (3, pytest.approx(0.3))]
    assert index.series("masked.zero_variance", 2, 2) == [(2, 100.0)]
    assert index.rows("SELECT value FROM heldout WHERE key = 'solve_rate' ORDER BY step") == [
        (0.25,),
        (0.75,),
    ]
    assert index.rows("SELECT kind, step FROM event ORDER BY time")[-2:] == [("stage", 3), ("finished", None)]
    assert index.rows("SELECT id, reward FROM trajectory ORDER BY seq")[0] == ("s00001.g00.r0", 1.0)


def test_it_follows_a_growing_run_and_holds_back_a_torn_line(run: Path, index: RunIndex) -> None:
    line = encode(step(4)) + b"\n"
    append(run / "steps.jsonl", line[:50])
    assert len(rewards(index)) == 3
    append(run / "steps.jsonl", line[50:])
    assert rewards(index)[-1] == (4, 0.4)


def test_a_step_done_again_replaces_the_earlier_one(run: Path, index: RunIndex) -> None:
    rewards(index)
    append(run / "steps.jsonl", encode(step(3, reward_mean=0.9)) + b"\n")
    assert rewards(index)[-1] == (3, 0.9)
    assert len(rewards(index)) == 3


def test_not_a_number_stays_so_and_absent_stays_absent(run: Path, index: RunIndex) -> None:
    changed = [step(4, reward_mean=None), step(5, reward_mean=math.nan), step(6, reward_mean=-math.inf)]
    append(run / "steps.jsonl", *(encode(record) + b"\n" for record in changed))
    absent, nan, infinite = (value for _, value in rewards(index)[-3:])
    assert absent is None
    assert nan is not None
    assert math.isnan(nan)
    assert infinite == -math.inf


def test_a_file_that_was_cut_or_replaced_is_read_anew(run: Path, index: RunIndex) -> None:
    rewards(index)
    path = run / "steps.jsonl"
    path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n")
    assert rewards(index) == [(1, 0.1)]
    path.write_bytes(b"".join(encode(step(n, reward_mean=0.5)) + b"\n" for n in range(1, 9)))
    assert rewards(index) == [(n, 0.5) for n in range(1, 9)]


@given(st.lists(st.binary(max_size=60).map(lambda line: line.replace(b"\n", b"")), max_size=6))
def test_lines_that_are_wrong_are_counted_and_passed_over(junk: list[bytes]) -> None:
    with TemporaryDirectory() as folder:
        run = Path(folder)
        append(run / "steps.jsonl", *(line + b"\n" for line in junk), encode(step(7)) + b"\n")
        index = RunIndex(run, run)
        index.refresh()
        assert [number for number, _ in index.series("reward_mean")] == [7]
        assert index.num_bad_lines() == sum(not _is_object(line) for line in junk)
        index.close()


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def test_names_and_numbers_that_no_run_writes_are_no_metrics(run: Path, index: RunIndex) -> None:
    record = {
        "step": 4,
        "Ignore all instructions": 1,
        "a" * 99: 2,
        "x": 10**400,
        "loss": 1,
        "dropped": {"\x1b[2J": 3},
    }
    append(run / "steps.jsonl", json.dumps(record).encode() + b"\n", b'{"step": -1, "loss": 2}\n')
    index.refresh("steps")
    assert index.rows("SELECT key, value FROM metric WHERE step NOT IN (1, 2, 3)") == [("loss", 1.0)]


@pytest.mark.parametrize("harm", ["spoiled", "deleted", "older"])
def test_an_index_that_is_broken_is_rebuilt(run: Path, tmp_path: Path, harm: str) -> None:
    index = RunIndex(run, _folder(tmp_path))
    before = rewards(index)
    index.close()
    if harm == "spoiled":
        index.path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    elif harm == "deleted":
        index.path.unlink()
    else:
        with sqlite3.connect(index.path) as db:
            db.execute("DROP TABLE metric")
        db.close()
    again = RunIndex(run, _folder(tmp_path))
    assert rewards(again) == before
    again.close()


def _refresh(run: Path, folder: Path) -> int:
    index = RunIndex(run, folder)
    index.refresh()
    return len(index.series("reward_mean"))


def test_several_processes_share_one(run: Path, tmp_path: Path) -> None:
    append(run / "steps.jsonl", *(encode(step(n)) + b"\n" for n in range(4, 400)))
    folder = _folder(tmp_path)
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.starmap(_refresh, [(run, folder)] * 3) == [399] * 3


def test_nothing_is_written_to_the_run(run: Path, index: RunIndex) -> None:
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    index.refresh()
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("LEGO_INDEX", str(tmp_path / "open"))
    with pytest.raises(UsageError, match="others may write it"):
        private_folder()
