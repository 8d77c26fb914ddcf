"""What is mounted into an image that has nothing of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lego_harness.adapters.inside import FORWARDER, forwarded
from lego_harness.sandbox.base import PYTHON, Phase, SandboxSpec
from lego_harness.sandbox.docker import DockerBackend
from lego_harness.sandbox.runtimes import python_runtime
from tests.support.bare_image import bare_image

pytestmark = [pytest.mark.docker, pytest.mark.slow]
START = f"{PYTHON}/start"
Spec = Callable[..., SandboxSpec]


@pytest.fixture(scope="module")
def bare() -> Iterator[str]:
    with bare_image() as tag:
        yield tag


@pytest.mark.parametrize("is_asked_for", [False, True])
async def test_a_python_is_brought_into_an_image_without_one(
    bare: str, spec: Spec, tmp_path: Path, is_asked_for: bool
) -> None:
    mounts = (python_runtime(tmp_path),) if is_asked_for else ()
    script = "import json, socket, ssl, sqlite3, sys; print(sys.version_info >= (3, 11), sys.prefix)"
    async with DockerBackend().open(spec(image=bare, mounts=mounts, root=True)) as sandbox:
        assert "not found" in (await sandbox.exec(["sh", "-c", "python3"], timeout_s=20)).stderr
        result = await sandbox.exec([START, "-I", "-c", script], timeout_s=20)
        assert result.stdout == f"True {PYTHON}/usr\n", result.stderr
        write = await sandbox.exec(["sh", "-c", f"echo x > {START}"], timeout_s=20)
        assert "Read-only file system" in write.stderr
        assert await sandbox.export() == {"a.txt": b"hello\n"}


async def test_a_harness_reaches_the_proxy_from_an_image_without_a_python(
    bare: str, spec: Spec, tmp_path: Path
) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"proxy\n")
        writer.close()
        await writer.wait_closed()

    path = tmp_path / "proxy.sock"
    async with (
        await asyncio.start_unix_server(answer, path),
        DockerBackend().open(
            spec(image=bare, phase=Phase.AGENT, proxy_socket=path, mounts=(FORWARDER,))
        ) as sandbox,
    ):
        result = await sandbox.exec(
            forwarded(["bash", "-c", "cat < /dev/tcp/127.0.0.1/{port}"]), timeout_s=20
        )
    assert result.stdout == "proxy\n", result.stderr
