"""A process that ends when its parent does.

vLLM computes in a child of the engine's actor, and that child waits for ever if its parent is killed. It would hold
memory (on a GPU, all of it) that the engine Ray starts next needs, and on another machine nobody looks for it.
"""

from __future__ import annotations

import os
import select
import signal
import threading


def end_with_parent() -> None:
    """From now on, whatever this process is doing."""
    parent = os.pidfd_open(os.getppid())
    threading.Thread(target=_wait, args=(parent,), name="end-with-parent", daemon=True).start()


def _wait(parent: int) -> None:
    ended = select.poll()
    ended.register(parent, select.POLLIN)
    ended.poll()
    os.kill(os.getpid(), signal.SIGKILL)
