"""A process that outlives a killed worker just long enough to remove its containers.

While any sandbox is open, a shell waits for the end of a pipe whose other end only this process holds. When
this process ends in whatever way, the pipe ends, and the shell removes everything that bears this owner's
label, until it has found none three times: the engine may still be creating one, or be away itself. Invariant: it
never touches a container of another owner, and it is gone when the last sandbox is closed.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager

_SCRIPT = """
read -r _
calm=0
for round in $(seq 60); do
  if found=$("$@" ps --all --quiet --filter "label=$LEGO_OWNED"); then
    if [ -n "$found" ]; then calm=0; "$@" rm --force --volumes $found; else calm=$((calm + 1)); fi
    networks=$("$@" network ls --quiet --filter "label=$LEGO_OWNED") && [ -n "$networks" ] && "$@" network rm $networks
    if [ $calm = 3 ]; then exit; fi
  fi
  sleep 1
done
"""


class Guard:
    """One per backend."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._holders = 0
        self._shell: subprocess.Popen[bytes] | None = None

    @contextmanager
    def held(self, client: Sequence[str], label: str) -> Generator[None]:
        """Guard the containers that bear `label` until left; `client` is the engine's command line."""
        with self._changing:
            self._holders += 1
            if self._shell is None:
                self._shell = _started(client, label)
        try:
            yield
        finally:
            with self._changing:
                self._holders -= 1
                if self._holders == 0:
                    self._dismiss()

    def _dismiss(self) -> None:
        if self._shell is not None:
            self._shell.kill()
            self._shell.communicate()
            self._shell = None


def _started(client: Sequence[str], label: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", _SCRIPT, "lego-guard", *client],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env={**os.environ, "LEGO_OWNED": label},
    )
