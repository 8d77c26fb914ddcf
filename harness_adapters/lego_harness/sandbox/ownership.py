"""Who made a sandbox, in a form that another process can check later.

Owns one string per process: boot id, pid namespace, pid and start time. Invariant: `is_gone` is
True only when the owner surely ended, so that reaping never takes a living worker's sandbox; a
process that cannot be seen from here counts as alive.
"""

from __future__ import annotations

import os
from pathlib import Path


def me() -> str:
    """This process: `boot/pidns/pid/start`."""
    return f"{_boot()}/{_pid_namespace()}/{os.getpid()}/{_start_ticks(os.getpid())}"


def is_gone(owner: str) -> bool:
    """Whether the process that signed `owner` has ended; a malformed signature has no owner."""
    parts = owner.strip().split("/")
    if len(parts) != 4 or not parts[2].isdigit():
        return True
    boot, namespace, pid, start = parts
    if boot != _boot():
        return True
    return namespace == _pid_namespace() and _start_ticks(int(pid)) != start


def is_of_this_boot(owner: str) -> bool:
    """Whether `owner` ran, or runs, on this machine since it was started."""
    return owner.partition("/")[0] == _boot()


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def _start_ticks(pid: int) -> str:
    """Start time of a living process; empty for none and for zombies."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
