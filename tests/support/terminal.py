"""A real terminal: a program in a window of tmux, driven by keys, read as what is painted."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LEGO = [sys.executable, "-m", "lego_control"]
PATIENCE_S = 120.0

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux; .ci/run installs it")


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

    def wait(self, says: Callable[[str], object], within_s: float = PATIENCE_S) -> str:
        """The screen once it says so."""
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            if says(found := self.screen()):
                return found
            time.sleep(0.05)  # a terminal tells nobody that it has changed
        raise AssertionError(self.screen())

    def wait_until_left(self) -> None:
        """Until the program has ended, and the window with it."""
        end = time.monotonic() + PATIENCE_S
        while self._is_open:
            assert time.monotonic() < end, self.screen()
            time.sleep(0.05)

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False)

    @property
    def _is_open(self) -> bool:
        return (
            subprocess.run(
                ["tmux", "-S", self._socket, "has-session"], capture_output=True, check=False
            ).returncode
            == 0
        )


@contextmanager
def watching(folder: Path, runs: Path, **environment: str) -> Iterator[Terminal]:
    """`lego watch` of the runs in a terminal; what tmux needs lies in `folder`."""
    terminal = Terminal(folder, [*LEGO, "watch", str(runs)], **environment)
    try:
        yield terminal
    finally:
        terminal.close()


def newest_step(screen: str) -> int:
    """The step that the Run screen shows as the newest; 0 where none is."""
    found = re.search(r"step (\d+) \(newest\)", screen)
    return int(found[1]) if found else 0


def follow_read_and_leave(terminal: Terminal, within_s: float = PATIENCE_S) -> None:
    """From the first run's step to a later one, down to what one rollout did, and out; a step takes `within_s`."""
    terminal.wait(lambda screen: "● running" in screen, within_s)
    terminal.press("Enter")
    first = newest_step(terminal.wait(newest_step, within_s))
    # Which of the later ones: two may be written between two looks of a busy display.
    terminal.wait(lambda screen: newest_step(screen) > first, within_s)
    for key, words in (
        ("Enter", ("LEGO  Step", "── g00, turn by turn")),
        ("Enter", ("LEGO  Group", "what it did ──")),
        ("Enter", ("LEGO  Trajectory", "turn 0/")),
        ("l", ("turn 1/", "▸ turn 1")),  # behind a prompt that may be longer than the screen
    ):
        terminal.press(key)
        terminal.wait(lambda screen, words=words: all(word in screen for word in words))
    terminal.press("q")
    terminal.wait_until_left()
