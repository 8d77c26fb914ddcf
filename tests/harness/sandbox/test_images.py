"""Task images: found again by content, built without network, and gone when the disk budget says so."""

from __future__ import annotations

import asyncio
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lego_harness.errors import SetupError
from lego_harness.sandbox.base import SandboxSpec
from lego_harness.sandbox.docker import DockerBackend
from lego_harness.sandbox.images import ImageCache
from tests.support.sandboxes import Sleeper

pytestmark = [pytest.mark.docker, pytest.mark.slow]
Spec = Callable[..., SandboxSpec]
HERMETIC = "ARG BASE\nFROM $BASE\nCOPY word /word\nRUN test -s /word\n"


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ImageCache]:
    cache = ImageCache(folder=tmp_path / "cache")
    yield cache
    for note in cache.folder.glob("[!.]*"):
        for repository in ("lego/task", "lego/fetched"):
            subprocess.run(["docker", "rmi", "--force", f"{repository}:{note.name}"], capture_output=True)


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """A build context that nobody has built before."""
    folder = tmp_path / "environment"
    folder.mkdir()
    (folder / "Dockerfile").write_text(HERMETIC)
    (folder / "word").write_text(uuid.uuid4().hex)
    return folder


async def test_a_context_is_built_once_and_its_image_serves(
    cache: ImageCache, context: Path, spec: Spec
) -> None:
    tags = await asyncio.gather(*(cache.ensure(context) for _ in range(3)))
    assert len(set(tags)) == 1
    (context / "Dockerfile").chmod(0o600)
    (context / "Dockerfile").chmod(0o644)
    assert await cache.ensure(context) == tags[0]
    async with DockerBackend().open(spec(image=tags[0])) as sandbox:
        result = await sandbox.exec(["cat", "/word"], timeout_s=20)
    assert result.stdout == (context / "word").read_text()
    (context / "word").write_text("another")
    assert await cache.ensure(context) != tags[0]


async def test_a_volume_that_an_image_declares_has_a_size(
    cache: ImageCache, context: Path, spec: Spec
) -> None:
    (context / "Dockerfile").write_text(f"{HERMETIC}VOLUME /data/ /workspace\n")
    async with DockerBackend().open(spec(image=await cache.ensure(context))) as sandbox:
        assert (await sandbox.exec(["touch", "/data/x", "/workspace/x"], timeout_s=20)).exit_code == 0
        sizes = await sandbox.exec(["df", "-m", "--output=fstype,size", "/data", "/workspace"], timeout_s=20)
    mb = spec().limits.disk_mb
    assert [line.split() for line in sizes.stdout.splitlines()[1:]] == [["tmpfs", f"{mb}"]] * 2


async def test_only_the_first_stage_has_a_network(cache: ImageCache, context: Path) -> None:
    interfaces = "RUN tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | grep -v lo > /interfaces || true\n"
    (context / "Dockerfile.fetch").write_text(f"ARG BASE\nFROM $BASE\n{interfaces}RUN test -s /interfaces\n")
    (context / "Dockerfile").write_text(
        "ARG FETCHED\nFROM $FETCHED\nRUN test -s /interfaces\n"
        "RUN python3 -c \"import socket; socket.create_connection(('192.0.2.1', 9), 5)\"\n"
    )
    with pytest.raises(
        SetupError, match=r"this stage has no network, downloads belong into Dockerfile.fetch.*non-zero"
    ):
        await cache.ensure(context)


async def test_a_dockerfile_that_never_ends_is_ended(cache: ImageCache, context: Path) -> None:
    forever = Sleeper()
    (context / "Dockerfile").write_text(f"ARG BASE\nFROM $BASE\nRUN {forever.command}\n")
    hasty = ImageCache(folder=cache.folder, timeout_s=15)
    with pytest.raises(SetupError, match=r"Dockerfile: not built within 15 s"):
        await hasty.ensure(context)
    async with asyncio.timeout(60):
        while forever.running():  # noqa: ASYNC110 another process has no event for us
            await asyncio.sleep(0.05)


async def test_a_context_without_a_dockerfile_says_what_is_missing(cache: ImageCache, context: Path) -> None:
    (context / "Dockerfile").unlink()
    with pytest.raises(SetupError, match="expected a Dockerfile, got none"):
        await cache.ensure(context)


async def test_the_least_recently_used_image_goes_first_but_not_what_is_in_use(
    cache: ImageCache, context: Path, spec: Spec
) -> None:
    tags: list[str] = []
    for number in range(3):
        (context / "word").write_text(f"{number} of {context}")
        tags.append(await cache.ensure(context))
    for age, tag in enumerate((tags[2], tags[0], tags[1])):
        os.utime(cache.folder / tag.rpartition(":")[2], (age + 1, age + 1))
    small = ImageCache(folder=cache.folder, budget_mb=1)
    async with DockerBackend().open(spec(image=tags[2])):
        removed = [tag for tag in await asyncio.to_thread(small.evict, keep=tags[1]) if tag in tags]
    assert removed == [tags[0]]
