"""How much memory this process has taken at most since some moment, as the kernel counts it.

Imports nothing of ours, so that it runs in other programs' environments.
"""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc/self")


class Peak:
    """From now on."""

    def __init__(self) -> None:
        (PROC / "clear_refs").write_text("5")  # forgets the highest so far
        self._before = _of("VmRSS")

    def bytes(self) -> int:
        """More than there was at the beginning."""
        return _of("VmHWM") - self._before


def _of(key: str) -> int:
    lines = (PROC / "status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"{key}:")]
    return int(line.split()[1]) * 1024
