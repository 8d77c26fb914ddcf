"""The real program in a real terminal, on a run that is being written."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lego_control.demo_runs.stories import STORIES
from lego_control.demo_runs.write import write_story, write_tokenizer

TMUX = shutil.which("tmux")
LEGO = [sys.executable, "-m", "lego_control"]
PATIENCE_S = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.skipif(TMUX is None, reason="needs tmux; .ci/run installs it")]


class Terminal:
    """A tmux server of our own with one window."""

    def __init__(self, folder: Path, command: list[str], **environment: str) -> None:
        self._socket = str(folder / "tmux")
        settings = [
            f"{key}={value}"
            for key, value in {"PYTHONPATH": os.pathsep.join(sys.path), **environment}.items()
        ]
        self._tmux(
            "-u",
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "120",
            "-y",
            "36",
            shlex.join(["env", "-u", "COLUMNS", "-u", "LINES", *settings, *command]),  # the window's own size
        )

    def _tmux(self, *arguments: str) -> str:
        return subprocess.run(
            ["tmux", "-S", self._socket, *arguments], capture_output=True, text=True, check=True
        ).stdout

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def wait(self, says: Callable[[str], object]) -> str:
        """The screen once it says so."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if says(found := self.screen()):
                return found
            time.sleep(0.05)  # a terminal tells nobody that it has changed
        raise AssertionError(self.screen())

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False)

    @property
    def is_open(self) -> bool:
        return (
            subprocess.run(
                ["tmux", "-S", self._socket, "has-session"], capture_output=True, check=False
            ).returncode
            == 0
        )


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


def _newest_step(text: str) -> int:
    """The step that is shown as the newest; 0 where none is."""
    found = re.search(r"step (\d+) \(newest\)", text)
    return int(found[1]) if found else 0


def test_a_live_run_is_followed_read_and_left(live: Path, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, [*LEGO, "watch", str(live)])
    try:
        terminal.wait(lambda text: "● running" in text)
        terminal.press("Enter")
        first = _newest_step(terminal.wait(_newest_step))
        # Which of the later ones: two may be written between two looks of a busy display.
        terminal.wait(lambda text: _newest_step(text) > first)
        for screen, chosen in (
            ("Step", "── g00, turn by turn"),
            ("Group", "what it did ──"),
            ("Trajectory", "▸ turn 1"),
        ):
            terminal.press("Enter")
            terminal.wait(lambda text, words=(f"LEGO  {screen}", chosen): all(word in text for word in words))
        terminal.press("q")
        end = time.monotonic() + PATIENCE_S
        while terminal.is_open and time.monotonic() < end:
            time.sleep(0.05)
        assert not terminal.is_open
    finally:
        terminal.close()


def test_a_terminal_without_utf_8_gets_ascii(tmp_path: Path) -> None:
    write_story(tmp_path / "runs", STORIES[0], model=write_tokenizer(tmp_path), steps=4)
    terminal = Terminal(tmp_path, [*LEGO, "watch", str(tmp_path / "runs")], LC_ALL="C", NO_COLOR="1")
    try:
        assert terminal.wait(lambda text: "+ finished" in text).isascii()
    finally:
        terminal.close()
