"""A live quickstart in the display, as a person has it: one terminal trains, another watches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.small_run import quickstart, start
from tests.support.terminal import follow_read_and_leave, needs_tmux, watching

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500), needs_tmux]

STEPS = {"train__steps": 3, "rollout__groups_per_step": 2, "rollout__group_size": 4, "eval__num_tasks": 4}


def test_a_live_quickstart_is_followed_read_and_left_to_its_end(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()  # the display is opened first, and waits for the run
    program = start(quickstart(harness="mini-swe-agent", sandbox="bubblewrap", **STEPS), tmp_path)
    try:
        with watching(tmp_path, runs) as terminal:
            follow_read_and_leave(terminal, within_s=600)
    finally:
        stdout, stderr = program.communicate(timeout=600)
    assert program.returncode == 0, stdout + stderr
