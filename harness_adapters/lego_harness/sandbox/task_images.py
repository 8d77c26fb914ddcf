"""From what a sandbox asks for to an image that is there.

Invariant: a spec that asks for nothing is left as it is; one with an image or a build context gets a tag of the
engine's and the mounted Python, since such an image may have none that our programs can use. An image is
built once, and looked at again each time: it may have been evicted meanwhile. Owns no build.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from lego_harness.sandbox.base import SandboxSpec
from lego_harness.sandbox.images import ImageCache
from lego_harness.sandbox.runtimes import python_runtime


class TaskImages:
    """Images and runtimes of one engine, by way of one cache folder."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._images = ImageCache(folder=cache / "images")
        self._built: dict[Path, str] = {}

    async def resolved(self, spec: SandboxSpec) -> SandboxSpec:
        """The spec with an image that is there; raises SetupError."""
        if spec.image is None and spec.context is None:
            return spec
        image = spec.image or await self._image(spec)
        python = await asyncio.to_thread(python_runtime, self._cache)
        others = (mount for mount in spec.mounts if mount.target != python.target)
        return replace(spec, image=image, context=None, mounts=(*others, python))

    async def _image(self, spec: SandboxSpec) -> str:
        assert spec.context is not None
        known = self._built.get(spec.context)
        if known is None or not await asyncio.to_thread(self._images.used, known):
            known = self._built[spec.context] = await self._images.ensure(spec.context)
        return known
