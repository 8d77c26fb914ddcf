"""A process that outlives a killed worker just long enough to remove its containers.

While any sandbox is open, a shell waits for the end of a pipe whose other end only this process holds. When
this process ends in whatever way, the pipe ends, and the shell removes everything that bears this owner's
label, until it has found none three times: the engine may still be creating one, or be away itself. Invariants: it
never touches a container of another owner; it ends when the last sandbox is closed; and nobody who ends what a
dead worker left, Ray and our own launches included, takes it for that: it is nobody's child and bears no mark.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress

_SCRIPT = """
if read -r _; then exit; fi
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


_DETACHED = 'exec 3<&0; /bin/sh -c "$0" lego-guard "$@" <&3 3<&- &'
_NEEDED = re.compile(r"PATH|HOME|XDG_.*|DOCKER_.*")
"""What the engine's client reads of the environment."""


class Guard:
    """One per backend."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._holders = 0
        self._pipe: int | None = None

    @contextmanager
    def held(self, client: Sequence[str], label: str) -> Generator[None]:
        """Guard the containers that bear `label` until left; `client` is the engine's command line."""
        with self._changing:
            self._holders += 1
            if self._pipe is None:
                self._pipe = _started(client, label)
        try:
            yield
        finally:
            with self._changing:
                self._holders -= 1
                if self._holders == 0:
                    self._dismiss()

    def _dismiss(self) -> None:
        if self._pipe is not None:
            with suppress(BrokenPipeError):  # somebody killed it
                os.write(self._pipe, b"dismissed\n")
            os.close(self._pipe)
            self._pipe = None


def _started(client: Sequence[str], label: str) -> int:
    """The end of the pipe that the guard waits on."""
    reading, writing = os.pipe()
    try:
        subprocess.run(
            ["/bin/sh", "-c", _DETACHED, _SCRIPT, *client],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={k: v for k, v in os.environ.items() if _NEEDED.fullmatch(k)} | {"LEGO_OWNED": label},
            check=True,
        )
    except BaseException:  # raised again: whatever it was, the pipe is not left open
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return writing
