"""A process that ends when the one that started it has.

vLLM computes in a child of the engine's actor, which waits for ever for a parent that was killed: it would keep its
memory, on a GPU all of it, from the engine that Ray starts in its place, and on another machine nobody looks for it.
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
