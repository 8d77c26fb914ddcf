"""The real program in a real terminal, on a run that is being written."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lego_control.demo_runs.stories import STORIES
from lego_control.demo_runs.write import write_story, write_tokenizer
from tests.support.terminal import LEGO, PATIENCE_S, follow_read_and_leave, needs_tmux, watching

pytestmark = [pytest.mark.slow, needs_tmux]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Path]:
    """A folder in which a run is being written."""
    command = [
        *LEGO,
        "demo-runs",
        str(tmp_path / "runs"),
        "--live",
        "healthy",
        "--steps",
        "200",
        "--seconds-per-step",
        "1",
    ]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) as writer:
        try:
            end = time.monotonic() + PATIENCE_S
            while not list((tmp_path / "runs").glob("*/run.json")) and time.monotonic() < end:
                time.sleep(0.05)
            yield tmp_path / "runs"
        finally:
            writer.terminate()


def test_a_live_run_is_followed_read_and_left(live: Path, tmp_path: Path) -> None:
    with watching(tmp_path, live) as terminal:
        follow_read_and_leave(terminal)


def test_a_terminal_without_utf_8_gets_ascii(tmp_path: Path) -> None:
    write_story(tmp_path / "runs", STORIES[0], model=write_tokenizer(tmp_path), steps=4)
    with watching(tmp_path, tmp_path / "runs", LC_ALL="C", NO_COLOR="1") as terminal:
        assert terminal.wait(lambda screen: "+ finished" in screen).isascii()
