"""A sandbox backend that isolates nothing: commands run on the host, network and all. Planted where a
validation must refuse it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from lego_harness.sandbox.base import ExecResult, SandboxSpec


class _Folder:
    def __init__(self, root: Path) -> None:
        self._root = root

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        stdin: bytes | None = None,
    ) -> ExecResult:
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=self._root, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate(stdin)
        assert process.returncode is not None
        return ExecResult(
            exit_code=process.returncode,
            stdout=out.decode(),
            stderr=err.decode(),
            timed_out=False,
            duration_s=0.0,
        )

    def exec_prefix(self, env: Mapping[str, str] | None = None, cwd: str = "") -> list[str]:
        return []

    async def export(self) -> dict[str, bytes]:
        return {}


class LeakyBackend:
    name = "leaky"
    cannot_hold: tuple[str, ...] = ()

    async def check(self) -> None: ...

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncIterator[_Folder]:
        with tempfile.TemporaryDirectory() as folder:
            for name, data in spec.files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            yield _Folder(Path(folder))

    async def reap(self, label: str) -> int:
        return 0
