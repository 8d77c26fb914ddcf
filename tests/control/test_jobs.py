"""Jobs that a client starts: found again by any server, never told of a recipe that has changed, ended in order."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lego_control import jobs as jobs_module
from lego_control.failures import Refusal
from lego_control.jobs import Jobs

WRONG = "[run]\nno_such_key = 1\n"
"""A recipe that a validation refuses at once."""
ENDLESS = """
import asyncio, sys
from pathlib import Path
from lego_control.ci.publish import Outputs
from lego_control.validate import command

async def endless(recipe, profile, budget_s):
    print("begun", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("put away", flush=True)

command._run = endless
sys.exit(command.prove(Path(sys.argv[1]), "smoke", "20m", (), Outputs(junit=None, json=None, summary=None)))
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(WRONG)
    return path


def started(jobs: Jobs, job: str) -> int:
    """The number of a job's process."""
    return int(json.loads((jobs.folder / job / "job.json").read_text())["pid"])


def ended(pid: int) -> None:
    handle = os.pidfd_open(pid)
    gone, _, _ = select.select([handle], [], [], 120)
    os.close(handle)
    assert gone


def test_a_job_is_the_same_for_every_name_of_the_folder(
    tmp_path: Path, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    near, far = Jobs(Path("runs")), Jobs(tmp_path / "runs")
    job = near.validate(recipe, "smoke", "20m", "").job
    pid = started(near, job)
    os.kill(pid, signal.SIGSTOP)
    assert (near.get(job).state, far.get(job).state) == ("running", "running")
    assert far.cancel(job).job == job
    os.kill(pid, signal.SIGCONT)
    ended(pid)
    assert (near.get(job).state, far.get(job).state) == ("cancelled", "cancelled")


def test_a_recipe_that_has_changed_is_validated_anew(tmp_path: Path, recipe: Path) -> None:
    jobs = Jobs(tmp_path / "runs")
    first = jobs.validate(recipe, "smoke", "20m", "")
    ended(started(jobs, first.job))
    assert jobs.get(first.job).exit_code == 2
    assert jobs.validate(recipe, "smoke", "20m", "").job == first.job
    recipe.write_text(WRONG + "# repaired\n")
    second = jobs.validate(recipe, "smoke", "20m", "")
    assert second.job != first.job
    ended(started(jobs, second.job))


def test_of_a_job_on_another_machine_nobody_says_that_it_is_gone(tmp_path: Path) -> None:
    jobs, job = Jobs(tmp_path), "validate-0123456789ab"
    folder = jobs.folder / job
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps({"pid": 2**22, "started": 0.0, "host": "another"}))
    assert jobs.get(job).state == "running"
    with pytest.raises(Refusal, match="another machine"):
        jobs.cancel(job)
    (folder / "code").write_text("0")
    assert jobs.get(job).state == "passed"


@pytest.mark.parametrize(("state", "told"), [("R", "running"), ("Z", "failed")])
def test_a_job_that_has_only_just_begun_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, told: str
) -> None:
    """Between its start and its first instruction a process has no command line; one that has ended has none, too."""
    jobs, job = Jobs(tmp_path), "validate-0123456789ab"
    (jobs.folder / job).mkdir(parents=True)
    (jobs.folder / job / "job.json").write_text(json.dumps({"pid": 7, "started": 0.0}))
    monkeypatch.setattr(jobs_module, "PROC", tmp_path / "proc")
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cmdline").write_bytes(b"")
    (tmp_path / "proc" / "7" / "stat").write_text(f"7 (a) b) {state} 1 1")
    assert jobs.get(job).state == told


def test_a_validation_that_is_told_to_end_puts_away_what_it_opened(tmp_path: Path) -> None:
    recipe = tmp_path / "fine.toml"
    recipe.write_text('[run]\nname = "fine"\n')
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(recipe)], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        program.terminate()
        assert program.stdout.read() == "put away\n"
    assert program.returncode == 128 + signal.SIGTERM
