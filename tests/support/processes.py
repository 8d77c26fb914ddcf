"""Processes as the kernel shows them, for tests that nothing is left running."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Every living process below `pid`, whatever session or namespace it is in."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
        except OSError:  # it ended meanwhile
            continue
        if state != "Z":
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    found, new = list[int](), [pid]
    while new:
        new = [child for parent in new for child in children.get(parent, [])]
        found += new
    return found


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def topmost(pids: Iterable[int], said: str) -> int:
    """The first of `descendants` whose command says that: what it has just forked bears its name for a moment."""
    return next(pid for pid in pids if said in command(pid))


def signature_of_the_dead() -> str:
    """How a process that has ended signed what it owned, see `lego_harness.sandbox.ownership`."""
    program = "from lego_harness.sandbox import ownership; print(ownership.me())"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    return said.stdout.decode().strip()


def left_running(before: Iterable[int], *, within_s: float = 60.0) -> list[str]:
    """Commands of this process's descendants that were not there `before` and do not end within that time."""
    return Watch(sorted({*descendants(os.getpid())} - {*before})).survivors(within_s=within_s)


class Watch:
    """Handles on processes, which cannot be mistaken for later ones of the same number."""

    def __init__(self, pids: list[int]) -> None:
        self.commands = {pid: command(pid) for pid in pids}
        self._fds: dict[int, int] = {}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # it ended since the list was made
                self._fds[pid] = os.pidfd_open(pid)

    def survivors(self, *, within_s: float) -> list[str]:
        """Commands of those that have not ended after `within_s` seconds."""
        deadline = time.monotonic() + within_s
        alive: list[str] = []
        for pid, fd in self._fds.items():
            left = max(0.0, deadline - time.monotonic())
            ended = select.poll()  # `select` itself takes no handle above 1023
            ended.register(fd, select.POLLIN)
            if not ended.poll(1000 * left):
                alive.append(self.commands[pid])
            os.close(fd)
        return alive
