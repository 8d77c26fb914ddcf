"""Harnesses written in Python: imported once per worker, one forked process per rollout.

Such a harness runs outside the sandbox and acts inside it through its own kind of plug-in; each adapter decides
what the program is told. Owns the life of the fork server and each rollout's home. Invariant: a rollout has a
home, a folder and an environment of its own, which are gone when `run` returns. Reads no transcript, and of the
output only its end, to show to people.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from lego_harness.adapters.base import HarnessExit
from lego_harness.adapters.fork_server import ForkServer
from lego_harness.adapters.install import Harness, reported_version
from lego_harness.errors import SetupError

_PROGRAMS = Path(__file__).parent / "programs"
_OUTPUT_BYTES = 20_000


class Forked:
    """A harness in a fork server, which is started when it is first needed."""

    def __init__(self, harness: Harness, program: str, settings: Mapping[str, str]) -> None:
        self._harness = harness
        self._program = _PROGRAMS / program
        self._settings = settings
        self._launch: asyncio.Task[ForkServer] | None = None
        self._changing = asyncio.Lock()
        self._num_rollouts = 0

    async def check(self, version_of: str) -> None:
        """Raise SetupError unless `version_of`, a line of Python run by the harness's own, prints the pinned
        version."""
        said = [str(self._python), "-c", version_of]
        await asyncio.to_thread(reported_version, said, self._harness, self._environment())

    async def start(self) -> None:
        """Pay the import."""
        await self._running_server()

    async def run(
        self,
        argv: Callable[[Path], list[str]],
        *,
        timeout_s: float,
        ordinary: frozenset[int] = frozenset({0}),
    ) -> HarnessExit:
        """Run the program to its end with the arguments that `argv` makes for the rollout's home."""
        server = await self._running_server()
        self._num_rollouts += 1
        with tempfile.TemporaryDirectory(dir=server.folder, ignore_cleanup_errors=True) as home:
            output = Path(home) / "output"
            ended = server.run(
                str(self._num_rollouts),
                argv(Path(home)),
                env={**self._environment(), "HOME": home, "TMPDIR": home},
                cwd=Path(home),
                output=output,
            )
            try:
                exit_code = (await asyncio.wait_for(ended, timeout_s)).exit_code
            except TimeoutError:
                return HarnessExit(exit_code=-9, output=_tail(output), timed_out=True)
            return HarnessExit(exit_code=exit_code, output=_tail(output), ordinary=ordinary)

    async def close(self) -> None:
        """End the server and whatever it forked."""
        launch, self._launch = self._launch, None
        if launch is None:
            return
        launch.cancel()
        with contextlib.suppress(asyncio.CancelledError, SetupError):
            await (await launch).close()

    async def _running_server(self) -> ForkServer:
        async with self._changing:
            if not self._is_usable():
                await self.close()
                self._launch = asyncio.create_task(self._launched())
            launch = self._launch
        # A rollout that gives up waiting leaves the import to go on for the next one.
        assert launch is not None
        return await asyncio.shield(launch)

    def _is_usable(self) -> bool:
        if self._launch is None or self._launch.cancelled():
            return False
        if not self._launch.done():
            return True
        return self._launch.exception() is None and self._launch.result().is_alive

    async def _launched(self) -> ForkServer:
        name, version = self._harness.name, self._harness.version
        server = await ForkServer.launch(self._python, self._program, self._environment())
        if server.version != version:
            await server.close()
            raise SetupError(f"{name} says {server.version!r}, expected {version!r}")
        return server

    def _environment(self) -> dict[str, str]:
        return {
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            **self._settings,
            "PATH": os.environ.get("PATH", os.defpath),
        }

    @property
    def _python(self) -> Path:
        return self._harness.folder / "bin" / "python"


def _tail(output: Path) -> str:
    if not output.exists():
        return ""
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _OUTPUT_BYTES))
        return file.read().decode(errors="replace")
