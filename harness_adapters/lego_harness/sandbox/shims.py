"""The process that an engine keeps per container, where a killed engine forgot it.

An engine that is killed while it starts a container, and then told to remove it, leaves that container's
containerd shim behind: idle, but for ever. Invariant: only the shim of the one container that was named is
ended, and only once the engine has removed that container.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def end_shim(container_id: str) -> bool:
    """Kill what is left of a removed container; whether there was anything that we may kill."""
    needle = f"-id\0{container_id}\0".encode()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes()
            if needle in words and b"containerd-shim" in words.partition(b"\0")[0]:
                os.kill(int(entry.parent.name), signal.SIGKILL)
                return True
    return False
