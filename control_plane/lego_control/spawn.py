"""Starts a program that belongs to nobody: a session of its own, no terminal, and only its number as a handle."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path


def spawn(arguments: Sequence[str], out: Path) -> int:
    """Run our Python with `arguments` and its output in `out`; returns the process's number."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(out), flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    argv = [sys.executable, *arguments]
    return os.posix_spawn(sys.executable, argv, os.environ, file_actions=actions, setsid=True)


def has_ended(pid: int) -> bool:
    """Whether a child of ours is gone."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
