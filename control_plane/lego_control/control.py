"""What a person asks of a run, through whichever face: recorded with who and why, then passed on.

Owns the four requests, starting, and the signal of `stop now`. Invariants: nothing is done that is not in the
audit log first; only a living trainer is asked to stop, and acknowledges it after a checkpoint; a
signal goes to the process that holds this run's lock, and to no other.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

from lego_control.failures import Refusal
from lego_control.fence import line
from lego_control.run import Run
from lego_core.changes import change
from lego_core.store.mailbox import Asked, Request, myself, post

MAX_WHY = 500


def through(client: str) -> str:
    """Who asks: this user, and the client that speaks for them."""
    return f"{myself()} ({line(client, 60)})" if client else myself()


def ask(run: Run, asked: Asked, *, who: str, via: str, why: str) -> Request:
    """Record a request to the trainer, or a note. Raises Refusal if nobody would read it or nothing is said."""
    if asked is Asked.NOTE and not line(why, MAX_WHY):
        raise Refusal("empty", "the note is empty", "say what is to be noted")
    if asked is not Asked.NOTE and not run.is_running():
        run.index.refresh("events")
        raise Refusal(
            "not_running",
            f"run {run.name} is {run.state()}: no trainer would hear it",
            f"go on with it: lego resume {run.name}" if asked is Asked.RESUME else "nothing is to be done",
        )
    return post(run.layout.root, asked, who=who, via=via, why=line(why, MAX_WHY))


def changes_for(run: Run, overrides: Sequence[str]) -> list[str]:
    """Arguments for a core that goes on with a run, with these changes of its recipe. Raises Refusal if a process
    has the run, because it keeps what it was started with, and UsageError if something may not change."""
    if overrides and run.is_running():
        raise Refusal(
            "running",
            f"run {run.name} goes on, or is paused, with the recipe that it has",
            "stop it first (run_stop, lego stop), then resume it with the changes",
        )
    if overrides:
        change(run.reader.recipe(), overrides)
    return [part for override in overrides for part in ("--set", override)]


def stop_now(run: Run, *, who: str, via: str, why: str) -> Request:
    """End the trainer without waiting for a step boundary: what is not committed is repeated on resume."""
    pid = trainer_pid(run.layout.lock)
    if pid is None:
        raise Refusal(
            "not_here",
            f"no process of yours on {socket.gethostname()} writes run {run.name}",
            f"ask it to stop behind its step instead: lego stop {run.name}",
        )
    request = post(
        run.layout.root, Asked.SIGNAL, who=who, via=via, why=line(why, MAX_WHY), fields={"pid": pid}
    )
    os.kill(pid, signal.SIGTERM)
    return request


def trainer_pid(lock: Path) -> int | None:
    """The process that holds the run's lock file open for writing: its trainer."""
    try:
        wanted = lock.stat()
    except OSError:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = list((process / "fd").iterdir())
        except OSError:  # another user's, or it ended
            continue
        if any(_is_held(link, wanted) for link in links) and int(process.name) != os.getpid():
            return int(process.name)
    return None


def _is_held(link: Path, wanted: os.stat_result) -> bool:
    """Open for writing, because a reader may look at the lock for a moment."""
    try:
        found = link.stat()
        is_same = (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
        return is_same and link.lstat().st_mode & 0o200 != 0
    except OSError:
        return False
