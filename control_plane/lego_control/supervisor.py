"""The core as a child process, followed through its run directory.

Invariants: the child's exit code is ours; SIGINT and SIGTERM are passed to it, and we wait for it to clean
up; it ends when we are killed; whatever a reader stumbles over, the child goes on (law 8).
Knows nothing of what is trained.
"""

from __future__ import annotations

import ctypes
import importlib.util
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rich.console import Console

from lego_core.leftovers import end_leftovers
from lego_core.store import RunReader, RunStatus
from lego_harness.errors import InfrastructureError, LegoError
from lego_tui.glance import look
from lego_tui.progress import Display, can_redraw, make_display

LOOK_EVERY_S = 0.5
CORE = (sys.executable, "-m", "lego_core.launch")
NEEDED = ("torch", "ray", "transformers")
_PATIENCE = 3
"""A child that was asked to end this many times is killed."""
_PR_SET_PDEATHSIG = 1
_QUIET_S = 5.0
"""A dead core's stream that brings nothing for this long is abandoned."""
RUN_LINE = "run: "


def train(arguments: Sequence[str], console: Console, core: Sequence[str] = CORE) -> int:
    """Run the core to its end with a display; returns its exit code, 128 + n if signal n ended it."""
    refuse_without_core()
    # On a terminal the core's complaints are shown above the panel; elsewhere they are stderr's.
    stderr = subprocess.PIPE if can_redraw(console) and sys.stderr.isatty() else None
    with make_display(console) as display, _child([*core, *arguments], subprocess.PIPE, stderr) as child:
        run = _follow(child, display)
        code = child.wait()
    end_leftovers()  # a core that was killed could not put its own children away
    _conclude(console, run, code)
    return code if code >= 0 else 128 - code


def run_module(module: str, arguments: Sequence[str]) -> int:
    """Run a module of the core that talks to the terminal itself; returns its exit code."""
    refuse_without_core()
    with _child([sys.executable, "-m", module, *arguments]) as child:
        code = child.wait()
    return code if code >= 0 else 128 - code


def refuse_without_core() -> None:
    """Raise InfrastructureError if training cannot start because packages are missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InfrastructureError(
            f"training needs {', '.join(missing)}, not installed for {sys.executable}; "
            "run make setup and use .venv/bin/lego"
        )


@contextmanager
def _child(
    command: Sequence[str], stdout: int | None = None, stderr: int | None = None
) -> Generator[subprocess.Popen[str]]:
    """A process in a session of its own, so that a Ctrl-C reaches it once: through us."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=_end_with_parent,
    )
    requests = 0

    def forward(number: int, frame: object) -> None:
        nonlocal requests
        requests += 1
        child.send_signal(number if requests < _PATIENCE else signal.SIGKILL)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
        for number, handler in before.items():
            signal.signal(number, handler)
        for stream in (child.stdout, child.stderr):
            if stream:
                stream.close()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _follow(child: subprocess.Popen[str], display: Display) -> Path | None:
    """Show the run until its process ends; returns the run's directory once the child has named it."""
    assert child.stdout is not None
    passing = [_PassOn(child.stderr, display)] if child.stderr else []
    run = _named_run(child.stdout, display)
    passing.append(_PassOn(child.stdout, display))
    if run is not None:
        _watch(child, run, display)
    child.wait()
    for stream in passing:
        stream.finish()
    return run


def _named_run(stdout: IO[str], display: Display) -> Path | None:
    for line in stdout:
        if line.startswith(RUN_LINE):
            return Path(line.removeprefix(RUN_LINE).rstrip("\n"))
        display.note(line.rstrip())
    return None


class _PassOn:
    """Hands a stream's lines to the display from a thread, so that a full pipe never blocks the core."""

    def __init__(self, stream: IO[str], display: Display) -> None:
        self._stream, self._display, self._lines = stream, display, 0
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        for line in self._stream:
            self._display.note(line.rstrip())
            self._lines += 1

    def finish(self) -> None:
        """Return when everything is passed on, or nothing comes any more: a grandchild may hold the pipe open."""
        passed = -1
        while self._thread.is_alive() and passed != self._lines:
            passed = self._lines
            self._thread.join(timeout=_QUIET_S)


def _watch(child: subprocess.Popen[str], run: Path, display: Display) -> None:
    reader = RunReader(run)
    complaint = ""
    is_over = False
    while not is_over:
        is_over = _has_ended(child)  # asked first, so that the last look sees the last step
        try:
            display.show(look(reader, reader.recipe()))
        except LegoError as error:
            if str(error) != complaint:
                complaint = str(error)
                display.note(f"lego: {complaint}")


def _has_ended(child: subprocess.Popen[str]) -> bool:
    try:
        child.wait(timeout=LOOK_EVERY_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _conclude(console: Console, run: Path | None, code: int) -> None:
    """Where the run is, how it ended, and what to type next."""
    if run is None:
        return
    status = RunReader(run).status()
    was = "was " if status is RunStatus.INTERRUPTED else ""
    lines = [
        f"\nThe run {was}{status.value}: {run}",
        f"  lego show {run}   # its steps as a table and a curve",
        f"  lego show {run} --json   # the same for programs",
        f"  tail {run}/events.jsonl   # what happened, in order",
    ]
    if code != 0:
        lines.append(f"Continue it with: lego train --resume {run}")
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)
