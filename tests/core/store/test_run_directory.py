"""The run directory as a reader and the next writer see it, whatever became of the last one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_core.store import RunReader, RunStatus, RunWriter, newest_run
from lego_core.store.json_records import encode
from lego_harness.errors import InfrastructureError, UsageError
from lego_harness.types import StopReason
from tests.support.runs import heldout, recipe, step, trajectory, write_run

ROOT = Path(__file__).parents[3]
FILES = ("steps.jsonl", "heldout.jsonl", "events.jsonl", "trajectories/index.jsonl", "trajectories/00001.zst")


def everything(run: Path) -> dict[str, list[bytes]]:
    """What a reader sees, by file, in an encoding that compares arrays too."""
    reader = RunReader(run)
    index = reader.trajectory_index()
    return {
        "steps.jsonl": [encode(r) for r in reader.steps()],
        "heldout.jsonl": [encode(r) for r in reader.heldout()],
        "events.jsonl": [encode(r) for r in reader.events()],
        "trajectories/index.jsonl": [encode(r) for r in index],
        "trajectories/00001.zst": [encode(reader.load(r)) for r in index],
    }


@contextmanager
def copy_of(run: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield shutil.copytree(run, Path(folder) / run.name)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs"))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    writer = RunWriter.create(tmp_path, recipe(harness={"name": "claude-code"}))
    failed = trajectory("s00001.g00.r1", grade=None, stop_reason=StopReason.FAILED_SETUP, error="no space")
    writer.append_trajectory(trajectory("s00001.g00.r0"), step=1)
    writer.append_trajectory(failed, step=1)
    writer.append_trajectory(trajectory("e00000.t000.r0"), step=None)
    writer.append_step(step(1))
    writer.append_heldout(heldout(1, 0.5))
    writer.event("warning", text="slow disk")

    reader = RunReader(writer.layout.root)
    assert reader.status() is RunStatus.RUNNING
    assert reader.recipe().harness.name == "claude-code"
    assert reader.steps() == (step(1),)
    assert reader.heldout() == (heldout(1, 0.5),)
    assert [(e.id, e.step, e.reward, e.sampled) for e in reader.trajectory_index()] == [
        ("s00001.g00.r0", 1, 1.0, 5),
        ("s00001.g00.r1", 1, None, 5),
        ("e00000.t000.r0", None, 1.0, 5),
    ]
    assert encode(reader.trajectory("s00001.g00.r1")) == encode(failed)
    assert [e.kind for e in reader.events()] == ["started", "warning"]
    assert reader.events()[0].fields == {"pid": os.getpid()}
    assert reader.info().versions["python"] == sys.version.split()[0]
    writer.close(RunStatus.FINISHED)


@pytest.mark.parametrize("status", ["finished", "failed", "interrupted"])
def test_a_closed_run_says_how_it_ended_and_why(tmp_path: Path, status: str) -> None:
    writer = RunWriter.create(tmp_path, recipe())
    writer.close(status, "because")
    writer.close("failed", "closing twice changes nothing")
    reader = RunReader(writer.layout.root)
    last = reader.last_status_event()
    assert reader.status() == status
    assert last is not None
    assert last.fields["reason"] == "because"


def test_the_later_record_of_a_step_wins_and_steps_come_in_order(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, recipe()) as writer:
        for record in (step(2), step(1), step(2, loss=7.0)):
            writer.append_step(record)
        writer.append_heldout(heldout(1, 0.1))
        writer.append_heldout(heldout(1, 0.9))
    reader = RunReader(writer.layout.root)
    assert reader.steps() == (step(1), step(2, loss=7.0))
    assert reader.heldout() == (heldout(1, 0.9),)


def test_a_reader_follows_a_run_while_it_is_written(tmp_path: Path) -> None:
    writer = RunWriter.create(tmp_path, recipe())
    reader = RunReader(writer.layout.root)
    for number in range(1, 4):
        writer.append_trajectory(trajectory(f"s{number:05d}.g00.r0"), step=number)
        writer.append_step(step(number))
        assert len(reader.steps()) == number
        assert reader.trajectory(f"s{number:05d}.g00.r0").num_sampled == 5
    writer.close("finished")
    assert reader.status() is RunStatus.FINISHED


def test_a_trajectory_is_stored_once(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, recipe()) as writer:
        writer.append_trajectory(trajectory("a"), step=1)
    with RunWriter.resume(writer.layout.root) as again, pytest.raises(ValueError, match="count twice"):
        again.append_trajectory(trajectory("a"), step=1)


def test_segments_that_are_full_are_followed_by_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lego_core.store.writer.SEGMENT_BYTES", 1)
    with RunWriter.create(tmp_path, recipe()) as writer:
        writer.append_trajectory(trajectory("a"), step=1)
        writer.append_trajectory(trajectory("b"), step=1)
    with RunWriter.resume(writer.layout.root) as writer:
        writer.append_trajectory(trajectory("c"), step=2)
    reader = RunReader(writer.layout.root)
    assert [e.file for e in reader.trajectory_index()] == ["00001.zst", "00002.zst", "00003.zst"]
    assert [reader.trajectory(i).id for i in "abc"] == ["a", "b", "c"]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(FILES), st.floats(0, 1))
def test_a_file_cut_anywhere_leaves_a_readable_prefix_and_can_be_written_on(
    finished: Path, name: str, share: float
) -> None:
    before = everything(finished)
    with copy_of(finished) as run:
        size = (run / name).stat().st_size
        os.truncate(run / name, int(share * size))
        seen = everything(run)
        for file, records in seen.items():
            assert records == before[file][: len(records)]
            if not name.startswith("trajectories") or not file.startswith("trajectories"):
                assert file == name or records == before[file]

        with RunWriter.resume(run) as writer:
            writer.append_trajectory(trajectory("s00009.g00.r0"), step=9)
            writer.append_step(step(9))
        after = everything(run)
        assert after["steps.jsonl"] == [*seen["steps.jsonl"], encode(step(9))]
        assert after["trajectories/00001.zst"] == [
            *seen["trajectories/00001.zst"],
            encode(trajectory("s00009.g00.r0")),
        ]


@pytest.mark.parametrize("name", FILES)
def test_a_resuming_writer_cuts_only_the_torn_tail_and_says_so(finished: Path, name: str) -> None:
    with copy_of(finished) as run:
        whole = (run / name).read_bytes()
        with (run / name).open("ab") as file:
            file.write(b'{"step": 4, "torn')
        RunWriter.resume(run).close("interrupted")
        assert (run / name).read_bytes().startswith(whole)
        assert [e.fields for e in RunReader(run).events() if e.kind == "truncated"] == [
            {"file": name, "bytes": 17}
        ]


def test_a_lost_older_segment_costs_its_trajectories_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lego_core.store.writer.SEGMENT_BYTES", 1)
    with RunWriter.create(tmp_path, recipe()) as writer:
        writer.append_trajectory(trajectory("a"), step=1)
        writer.append_trajectory(trajectory("b"), step=1)
    (writer.layout.root / "trajectories" / "00001.zst").unlink()
    RunWriter.resume(writer.layout.root).close("finished")
    reader = RunReader(writer.layout.root)
    assert [e.id for e in reader.trajectory_index()] == ["a", "b"]
    assert reader.trajectory("b").id == "b"
    with pytest.raises(InfrastructureError, match=r"00001\.zst: frame of a"):
        reader.trajectory("a")


def test_a_second_writer_is_refused_in_one_line(tmp_path: Path) -> None:
    writer = RunWriter.create(tmp_path, recipe())
    with pytest.raises(UsageError, match=r"is being written by another process") as refused:
        RunWriter.resume(writer.layout.root)
    assert "\n" not in str(refused.value)
    writer.close("finished")
    RunWriter.resume(writer.layout.root).close("finished")


def test_asking_for_the_status_never_keeps_a_writer_out(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    script = (
        "import sys; from pathlib import Path; from lego_core.store.lock import is_locked\n"
        f"print(flush=True)\nwhile True: is_locked(Path({str(run / 'writer.lock')!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        asking.stdout.readline()
        for _ in range(50):
            RunWriter.resume(run).close("interrupted")
        asking.kill()


WRITE_UNTIL_KILLED = """
import sys
from pathlib import Path
from lego_core.store import RunWriter
from tests.support.runs import heldout, recipe, step, trajectory
writer = RunWriter.create(Path(sys.argv[1]), recipe())
for number in range(1, 10_000):
    writer.append_trajectory(trajectory(f"s{number:05d}.g00.r0"), step=number)
    writer.append_step(step(number))
    print(number, flush=True)
"""


def test_what_was_acknowledged_before_kill_9_is_there(tmp_path: Path) -> None:
    for steps in (1, 2, 5, 9):
        command = [sys.executable, "-c", WRITE_UNTIL_KILLED, str(tmp_path / str(steps))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            assert process.stdout is not None
            for _ in range(steps):
                process.stdout.readline()
            run = newest_run(tmp_path / str(steps))
            assert RunReader(run).status() is RunStatus.RUNNING
            process.send_signal(signal.SIGKILL)
        reader = RunReader(run)
        assert reader.status() is RunStatus.INTERRUPTED
        assert len(reader.steps()) >= steps
        assert len(reader.trajectory_index()) >= steps
        assert encode(reader.trajectory("s00001.g00.r0")) == encode(trajectory("s00001.g00.r0"))


FILL_THE_DISK = """
import resource, sys
from pathlib import Path
from lego_core.store import RunWriter
from lego_harness.errors import InfrastructureError
from tests.support.runs import recipe, step, trajectory
writer = RunWriter.create(Path(sys.argv[1]), recipe())
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
number = 0
try:
    while True:
        number += 1
        writer.append_trajectory(trajectory(f"s{number:05d}.g00.r0"), step=number)
except InfrastructureError as error:
    print(number, error, flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writer.append_trajectory(trajectory("s99999.g00.r0"), step=number)
writer.close("failed", "disk full")
"""


def test_a_write_the_disk_refuses_halfway_leaves_nothing_behind(tmp_path: Path) -> None:
    """A file size limit makes the kernel write a part and refuse the rest, as a full disk does."""
    done = subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    number, line = done.stdout.strip().split(" ", 1)
    reader = RunReader(newest_run(tmp_path))
    ids = [f"s{n:05d}.g00.r0" for n in range(1, int(number))]
    assert int(number) > 1
    assert line.startswith("run store: writing ")
    assert f"lego train --resume {reader.layout.root}" in line
    assert [e.id for e in reader.trajectory_index()] == [*ids, "s99999.g00.r0"]
    assert all(encode(reader.trajectory(i)) == encode(trajectory(i)) for i in [*ids, "s99999.g00.r0"])


def test_a_run_that_cannot_be_made_is_one_line_and_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InfrastructureError, match=r"cannot make a run in .*choose another run\.runs_dir"):
        RunWriter.create(tmp_path / "file" / "runs", recipe())


def test_runs_started_in_the_same_second_lie_apart(tmp_path: Path) -> None:
    runs = [write_run(tmp_path, steps=()) for _ in range(3)]
    assert len(set(runs)) == 3
    assert newest_run(tmp_path) == runs[-1]


def test_folders_that_are_no_run_are_passed_over(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    (tmp_path / "zzz").mkdir()
    (tmp_path / "zzz" / "run.json").write_text("{")
    assert newest_run(tmp_path) == run


def test_no_run_at_all_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lego quickstart"):
        newest_run(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"is no run: it has no run\.json"):
        RunReader(tmp_path).info()
    with pytest.raises(UsageError, match=r"is no run"):
        RunWriter.resume(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FILES[:4])
def test_a_whole_line_that_is_wrong_names_file_and_line(finished: Path, name: str) -> None:
    with copy_of(finished) as run:
        lines = (run / name).read_bytes().split(b"\n")
        lines[1] = b'\r{"surprise": 1}'
        (run / name).write_bytes(b"\n".join(lines))
        with pytest.raises(InfrastructureError, match=rf"{name}:2: \w+: unknown field 'surprise'"):
            everything(run)


@pytest.mark.parametrize("change", [{"file": "../run.json"}, {"offset": -1}, {"length": 0}])
def test_an_index_that_points_outside_its_segments_is_refused(
    finished: Path, change: dict[str, object]
) -> None:
    with copy_of(finished) as run:
        index = run / "trajectories" / "index.jsonl"
        lines = index.read_text().splitlines()
        index.write_text("\n".join([*lines[:-1], json.dumps({**json.loads(lines[-1]), **change})]) + "\n")
        with pytest.raises(InfrastructureError, match=rf"index\.jsonl:{len(lines)}: points at"):
            RunReader(run).trajectory_index()


def read_or_refusal(run: Path, trajectory_id: str) -> bytes:
    try:
        return encode(RunReader(run).trajectory(trajectory_id))
    except InfrastructureError as error:
        return str(error).encode()


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_flipped_bit_in_a_frame_is_noticed(finished: Path, data: st.DataObject) -> None:
    with copy_of(finished) as run:
        segment = run / "trajectories" / "00001.zst"
        content = bytearray(segment.read_bytes())
        position = data.draw(st.integers(0, RunReader(run).trajectory_index()[0].length - 1))
        content[position] ^= 1 << data.draw(st.integers(0, 7))
        segment.write_bytes(content)
        outcome = read_or_refusal(run, "s00001.g00.r0")
    harmless = outcome == encode(trajectory("s00001.g00.r0"))  # zstd has header bits without meaning
    assert harmless or b"00001.zst: frame of s00001.g00.r0 at 0" in outcome


def test_an_unknown_layout_is_refused(finished: Path) -> None:
    with copy_of(finished) as run:
        info = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps({**info, "format": 99}))
        with pytest.raises(UsageError, match="layout 99, expected 1"):
            RunReader(run).info()
