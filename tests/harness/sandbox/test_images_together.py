"""Many rollouts want one image at the same time; no engine is asked."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lego_harness.sandbox import images
from lego_harness.sandbox.images import ImageCache


async def test_more_rollouts_than_threads_may_want_an_image_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever holds an image's lock needs a thread to go on: those who wait for it must not have them all."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    monkeypatch.setattr(images, "content_key", lambda context: "key")
    monkeypatch.setattr(images, "_is_there", lambda tag: True)
    monkeypatch.setattr(ImageCache, "evict", lambda self, keep="": [])
    cache = ImageCache(folder=tmp_path / "cache")
    async with asyncio.timeout(30):
        tags = await asyncio.gather(*(cache.ensure(tmp_path) for _ in range(8)))
    assert set(tags) == {"lego/task:key"}


async def test_an_engine_that_does_not_list_its_images_evicts_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library asks for one image after the other, and fails where another worker removed one meanwhile."""

    def raced() -> None:
        raise images.ImageNotFound("removed meanwhile")

    monkeypatch.setattr(images.engine, "client", raced)
    assert ImageCache(folder=tmp_path).evict() == []
