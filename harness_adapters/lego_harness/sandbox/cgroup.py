"""What the kernel counted for a container and for this machine, read on the host.

Invariant: a container's number comes only from the control group of the container that was named; where the engine runs
elsewhere, or in another process namespace, there is none. Neither an exit code nor the engine's own flag
tells when a command ran out of memory: both miss a killed child. Nor does the group's count of kills tell for whose
want: it counts those of a machine that has none left as well.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_MACHINE = Path("/proc/vmstat")
_BOUNDS = ("memory", "memory.memsw")
"""Of the first kind of control groups, without and with swap. How often such a group was refused memory (`failcnt`) is
not always counted when it is killed at its bound; the most that it ever had is."""
_ONE_CHARGE = 2 * 2**20
"""By how much a group may stay below the bound that it was killed at: a huge page."""


class Kills:
    """For want of memory, from its making on; of one container where a counter of it is given."""

    def __init__(self, counter: Path | None = None) -> None:
        self._counter = counter
        self._own, self._all = oom_kills(counter), _count(_MACHINE, "oom_kill")

    @property
    def num_own(self) -> int:
        """Of the container, for its own bound."""
        return oom_kills(self._counter) - self._own

    @property
    def num_others(self) -> int:
        """On this machine, for another reason than that."""
        return _count(_MACHINE, "oom_kill") - self._all - self.num_own


def is_of(pid: int, container_id: str) -> bool:
    """Whether a process that we see under `pid` belongs to that container."""
    return bool(container_id) and container_id in _membership(pid)


def oom_counter(pid: int, container_id: str) -> Path | None:
    """The file that counts kills for want of memory in the container whose first process is `pid`."""
    for line in _membership(pid).splitlines():
        _, controllers, path = line.split(":", 2)
        if container_id not in path:
            continue
        if "memory" in controllers.split(","):
            return _there(_ROOT / "memory" / path.lstrip("/") / "memory.oom_control")
        if controllers == "" and (found := _there(_ROOT / path.lstrip("/") / "memory.events")):
            return found
    return None


def oom_kills(counter: Path | None) -> int:
    """Processes killed for want of the memory that the container may have, so far; 0 where nothing counts them."""
    if counter is None or not _reached_its_bound(counter):
        return 0
    return _count(counter, "oom_kill")


def _reached_its_bound(counter: Path) -> bool:
    if counter.name == "memory.events":
        return _count(counter, "oom") > 0
    bounds = [name for name in _BOUNDS if counter.with_name(f"{name}.limit_in_bytes").is_file()]
    return not bounds or any(_has_reached(counter, name) for name in bounds)


def _has_reached(counter: Path, bound: str) -> bool:
    most, limit = (_number(counter.with_name(f"{bound}.{name}_in_bytes")) for name in ("max_usage", "limit"))
    return most + _ONE_CHARGE >= limit


def _number(file: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(file.read_text())
    return 0


def _count(file: Path, name: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0


def _membership(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cgroup").read_text()
    return ""


def _there(path: Path) -> Path | None:
    return path if path.is_file() else None
