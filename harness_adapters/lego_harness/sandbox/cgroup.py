"""What the kernel counted for a container, read on the host.

Invariant: a number comes only from the control group of the container that was named; where the engine runs
elsewhere, or in another process namespace, there is none. Neither an exit code nor the engine's own flag
tells when a command ran out of memory: both miss a killed child.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


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
    """Processes killed for want of memory so far; 0 where nothing counts them."""
    with contextlib.suppress(OSError, ValueError):
        for line in counter.read_text().splitlines() if counter else ():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0


def _membership(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cgroup").read_text()
    return ""


def _there(path: Path) -> Path | None:
    return path if path.is_file() else None
