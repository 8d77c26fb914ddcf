"""A run that was started detached outlives its starter; what is asked of it is written down."""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lego_control.cli import main
from lego_control.runs import MAX_OPEN, Runs
from lego_control.tools.status import runs_list
from lego_core.store import RunReader, RunStatus
from lego_core.store.mailbox import Asked, requests
from tests.control.operated import operated_run

pytestmark = pytest.mark.xdist_group("launches")  # see tests/core/test_leftovers.py
ROOT = Path(__file__).parents[2]
START = """
import sys
from lego_control.detached import start
core = [sys.executable, "-m", "tests.support.pretend_core"]
try:
    print(start(sys.argv[1:3], who="ann@host", via="cli", why="to see", core=core))
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def start(runs: Path, behaviour: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", START, str(runs), behaviour]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def wait(pid: int) -> None:
    handle = os.pidfd_open(pid)
    ended, _, _ = select.select([handle], [], [], 120)
    os.close(handle)
    assert ended


def test_a_detached_run_outlives_its_starter_and_its_end_is_told(tmp_path: Path) -> None:
    run = Path(start(tmp_path, "wait").stdout.strip())
    (started,) = requests(run)
    assert (started.asked, started.who, started.why) == (Asked.START, "ann@host", "to see")
    assert RunReader(run).status() is RunStatus.RUNNING
    supervisor = os.pidfd_open(started.fields["supervisor"])
    assert main(["stop", str(run), "--now", "--why", "seen enough"]) == 0
    ended, _, _ = select.select([supervisor], [], [], 120)
    os.close(supervisor)
    assert ended
    assert RunReader(run).status() is RunStatus.INTERRUPTED
    asked = {request.asked: request for request in requests(run)}
    assert asked[Asked.SIGNAL].why == "seen enough"
    assert asked[Asked.ENDED].fields == {"code": 130}


def test_a_core_that_refuses_is_told_in_its_own_words(tmp_path: Path) -> None:
    done = start(tmp_path, "refuse")
    assert done.returncode == 1
    assert "install bubblewrap" in done.stderr


def test_a_killed_core_is_told_by_its_signal(tmp_path: Path) -> None:
    run = Path(start(tmp_path, "crash").stdout.strip())
    # The core may be gone, and that be told, before the start is.
    supervisor = next(r for r in requests(run) if r.asked is Asked.START).fields["supervisor"]
    if Path(f"/proc/{supervisor}").exists():
        wait(supervisor)
    assert [r.why for r in requests(run) if r.asked is Asked.ENDED] == [f"ended by {signal.SIGKILL.name}"]


def test_what_nobody_would_hear_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = operated_run(tmp_path, steps=1)
    for command in ("stop", "pause"):
        assert main([command, str(run), "--why", "x"]) == 2
    assert main(["stop", str(run), "--now"]) == 2
    assert main(["stop", str(tmp_path / "nope")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 4
    assert requests(run) == ()


def test_a_note_stands_in_the_audit_log_in_one_clean_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = operated_run(tmp_path, steps=1)
    assert main(["note", str(run), "looks\n\x1b[31mfine"]) == 0
    capsys.readouterr()
    assert main(["runs", "--audit", str(run)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("(cli): looks fine")


@pytest.mark.parametrize("text", ["", " \n", "\x1b[31m"])
def test_a_note_that_says_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    run = operated_run(tmp_path, steps=1)
    assert main(["note", str(run), text]) == 2
    assert "the note is empty; say what is to be noted" in capsys.readouterr().err
    assert requests(run) == ()


def test_runs_are_listed_with_how_they_stand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = operated_run(tmp_path, steps=2)
    assert main(["runs", "--runs-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == ["finished", "2/4", "0.100", run.name]


def test_a_run_that_is_broken_is_a_line_among_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, broken = operated_run(tmp_path, steps=2), operated_run(tmp_path, steps=2)
    (broken / "events.jsonl").unlink()
    (broken / "events.jsonl").mkdir()
    assert main(["runs", "--runs-dir", str(tmp_path)]) == 0
    told = {line.split()[-1]: line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert told == {whole.name: "finished", broken.name: "unreadable"}


def test_a_folder_of_hundreds_of_runs_keeps_few_files_open(tmp_path: Path) -> None:
    first = operated_run(tmp_path, steps=1)
    for number in range(MAX_OPEN + 8):
        shutil.copytree(first, tmp_path / f"copy-{number:03d}")
    runs = Runs(tmp_path)
    rows = runs_list(runs, limit=200).runs
    assert {row.state for row in rows} == {"finished"}
    assert len(rows) == MAX_OPEN + 9
    held = {path.readlink().name[:24] for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    ours = {hashlib.sha256(os.fsencode(run.resolve())).hexdigest()[:24] for run in tmp_path.iterdir()}
    assert len(held & ours) == MAX_OPEN
    for name in [row.run for row in rows]:
        runs.get(name).index.close()


def test_a_folder_without_runs_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--runs-dir", str(tmp_path)]) == 0
    assert "no run in" in capsys.readouterr().out


def test_the_audit_log_is_there_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = operated_run(tmp_path, steps=1)
    assert main(["note", str(run), "fine"]) == 0
    capsys.readouterr()
    assert main(["runs", "--audit", str(run), "--json"]) == 0
    (request,) = json.loads(capsys.readouterr().out)["requests"]
    assert (request["asked"], request["why"]) == ("note", "fine")
