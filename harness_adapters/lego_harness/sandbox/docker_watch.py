"""Whether the Docker engine was interrupted while a sandbox was open.

Commands that a harness runs by `exec_prefix` fail inside it when the engine goes away, and look like the
agent's own. So the engine is watched from outside, over one connection that its daemon keeps open as long
as it lives, and asked for what it needs to run commands: a containerd that is killed under a living daemon
answers no ping differently. Nothing that runs in a sandbox can cause or forge what is seen here.

Invariant: an interruption that overlaps a hold is counted before the hold's next `count` returns. An engine
that is not reached by a unix socket is not watched; there an interruption shows as failing calls only.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Generator
from contextlib import contextmanager

from lego_harness.sandbox import docker_connection

_INTERVAL_S = 1.0
"""Without its containerd an engine is for 2 seconds and more."""
_PATIENCE_S = 180.0
"""An engine that is only slow is not interrupted."""


class EngineWatch:
    """Counts one engine's interruptions while anybody holds it."""

    def __init__(self, host: str) -> None:
        self._path = docker_connection.path_of(host)
        self._connection: http.client.HTTPConnection | None = None
        self._looking = threading.Lock()
        self._changing = threading.Lock()
        self._holders = 0
        self._over = threading.Event()
        self._count = 0
        self._is_whole = True
        self._was_whole = False

    @contextmanager
    def held(self) -> Generator[None]:
        """Look every second until left."""
        if self._path is None:
            yield
            return
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def count(self) -> int:
        """Interruptions up to now; looks first. Blocks for some 10 ms."""
        if self._path is not None:
            with self._looking:
                self._look()
                self._hang_up_if_free()
        return self._count

    @property
    def is_away(self) -> bool:
        """Whether the last look found a daemon or a containerd missing that an earlier look had found: it may come
        back."""
        return self._was_whole and not self._is_whole

    def _enter(self) -> None:
        with self._changing:
            self._holders += 1
            if self._holders == 1:
                self._over = threading.Event()
                threading.Thread(target=self._keep_looking, args=(self._over,), daemon=True).start()

    def _leave(self) -> None:
        with self._changing:
            self._holders -= 1
            if self._holders == 0:
                self._over.set()

    def _keep_looking(self, over: threading.Event) -> None:
        while not over.wait(_INTERVAL_S):
            self.count()
        with self._looking:
            self._hang_up_if_free()

    def _look(self) -> None:
        was_whole, self._is_whole = self._is_whole, self._asks_well()
        self._was_whole |= self._is_whole
        if not self._is_whole:
            self._hang_up()
            self._count += was_whole

    def _asks_well(self) -> bool:
        """Whether the daemon we spoke to last still lives and has its containerd."""
        try:
            if self._connection is None:
                self._connection = docker_connection.connection(self._path or "", timeout_s=_PATIENCE_S)
            parts = docker_connection.version(self._connection)["Components"]
            return any(part["Name"] == "containerd" for part in parts)
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            return False

    def _hang_up_if_free(self) -> None:
        if self._holders == 0:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
