"""Task images, built once and found again by their content.

    CONTEXT/Dockerfile.fetch   optional: brings in what comes from outside; built with the host's network
    CONTEXT/Dockerfile         the rest, built without any network, on `FROM $FETCHED` or `FROM $BASE`

A tag is made of everything that goes into the build: every file of the context with its mode, and the base
image's id. Invariant: an image under its tag is whole, was finished without network, and an identical context
is never built twice; builds that fail or run out of time fail the set-up with the step that did. What was
used least recently goes first when the budget is exceeded, but never what a container uses. Only images that this
cache has noted are looked at.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import subprocess
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import APIError, ImageNotFound

from lego_harness.errors import SetupError
from lego_harness.sandbox import docker_engine as engine
from lego_harness.sandbox.base import BUILD, FETCH
from lego_harness.sandbox.processes import Ended, run_bounded
from lego_harness.text import one_line

LABEL = "lego.image=task"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Handed to fetching as the secret `ca`, where the builder has secrets: for machines behind a proxy."""
_SAID_BYTES = 200_000
_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageCache:
    """Builds task images into one engine."""

    folder: Path
    """Notes when which image was used last, and holds the locks of builds."""
    timeout_s: float = 1800.0
    """Of one stage."""
    budget_mb: int = 20_000
    """Of all task images together, layers that they share counted once per image."""

    async def ensure(self, context: Path) -> str:
        """The tag of the context's image, built if it is not there; raises SetupError."""
        key = await asyncio.to_thread(content_key, context)
        tag = f"lego/task:{key}"
        async with self._alone(key):
            if not await asyncio.to_thread(_is_there, tag):
                await self._build(context, key, tag)
            (self.folder / key).touch()
        await asyncio.to_thread(self.evict, keep=tag)
        return tag

    def used(self, tag: str) -> bool:
        """Note a use of an image; False where it is not there any more. Raises SetupError."""
        if not _is_there(tag):
            return False
        self._note(tag).touch()
        return True

    def evict(self, *, keep: str = "") -> list[str]:
        """Remove the least recently used of this cache's images beyond the budget; their tags. None where the
        engine does not list them: it refuses to while somebody else removes one."""
        with suppress(*engine.FAULTS), engine.client() as client:
            listed = client.images.list(filters={"label": LABEL})
            sizes = {
                tag: image.attrs["Size"] for image in listed for tag in image.tags if self._has_used(tag)
            }
            total, removed = sum(sizes.values()), list[str]()
            for tag in sorted(sizes, key=self._last_used):
                if total <= self.budget_mb * 2**20:
                    break
                if tag != keep and _removed(client, tag):
                    total -= sizes[tag]
                    removed.append(tag)
            return removed
        return []

    async def _build(self, context: Path, key: str, tag: str) -> None:
        base = engine.default_image()
        arguments = {"BASE": base, "FETCHED": base}
        if (context / FETCH).exists():
            arguments["FETCHED"] = f"lego/fetched:{key}"
            flags = ["--network=host", f"--label={LABEL}"]
            await self._stage(context, FETCH, arguments["FETCHED"], arguments, flags)
        await self._stage(context, BUILD, tag, arguments, ["--network=none", f"--label={LABEL}"])

    async def _stage(
        self, context: Path, file: str, tag: str, arguments: dict[str, str], flags: Iterable[str]
    ) -> None:
        values = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        builder = await asyncio.to_thread(_builder)
        ended = await run_bounded(
            [*builder, f"--tag={tag}", f"--file={context / file}", *values, *flags, str(context)],
            timeout_s=self.timeout_s,
            output_bytes=_SAID_BYTES,
        )
        if ended.timed_out:
            raise SetupError(f"{context / file}: not built within {self.timeout_s:g} s; {_last_words(ended)}")
        if ended.exit_code != 0:
            hint = f"this stage has no network, downloads belong into {FETCH}; " if file == BUILD else ""
            raise SetupError(f"{context / file}: cannot be built; {hint}{_last_words(ended)}")

    def _has_used(self, tag: str) -> bool:
        return self._note(tag).exists()

    def _last_used(self, tag: str) -> float:
        return self._note(tag).stat().st_mtime

    def _note(self, tag: str) -> Path:
        return self.folder / tag.rpartition(":")[2]

    @asynccontextmanager
    async def _alone(self, key: str) -> AsyncGenerator[None]:
        """One builder of an image at a time, on this machine."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f".{key}.lock").open("w") as file:
            # No thread waits for it: whoever holds the lock needs one to go on.
            while not _locked(file.fileno()):  # noqa: ASYNC110 another process has no event for us
                await asyncio.sleep(_LOOK_EVERY_S)
            yield


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def content_key(context: Path) -> str:
    """A digest of everything that the build can see; raises SetupError."""
    if not (context / BUILD).is_file():
        raise SetupError(f"{context}: expected a {BUILD}, got none")
    digest = hashlib.sha256(_base_id().encode())
    for path in sorted(context.rglob("*")):
        name, mode = path.relative_to(context).as_posix(), path.lstat().st_mode
        content = (
            str(path.readlink()).encode()
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else b""
        )
        for part in (name.encode(), f"{mode:o}".encode(), content):
            digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()[:20]


def _base_id() -> str:
    try:
        with engine.client() as client:
            return str(client.images.get(engine.default_image()).id)
    except ImageNotFound as error:
        raise SetupError(
            f"image {engine.default_image()} is not there; build it with scripts/docker_engine.sh image"
        ) from error
    except engine.FAULTS as error:
        raise SetupError(f"no image can be looked up: {engine.last_line(str(error).encode())}") from error


def _is_there(tag: str) -> bool:
    try:
        with engine.client() as client:
            client.images.get(tag)
    except ImageNotFound:
        return False
    except engine.FAULTS as error:
        raise SetupError(f"no image can be looked up: {engine.last_line(str(error).encode())}") from error
    return True


def _removed(client: Any, tag: str) -> bool:
    """Whether it is gone now; the engine keeps what a container uses."""
    try:
        client.images.remove(tag)
    except ImageNotFound:
        return True
    except APIError:
        return False
    return True


def _builder() -> list[str]:
    """BuildKit where the client has it, else the engine's own builder."""
    buildx = [*engine.cli(), "buildx", "version"]
    if subprocess.run(buildx, capture_output=True, timeout=60).returncode != 0:
        return ["env", "DOCKER_BUILDKIT=0", *engine.cli(), "build", "--force-rm"]
    secret = ["--secret", f"id=ca,src={_CERTIFICATES}"] if _CERTIFICATES.exists() else []
    return ["env", "DOCKER_BUILDKIT=1", *engine.cli(), "build", "--progress=plain", *secret]


def _last_words(ended: Ended) -> str:
    said = (ended.stdout + b"\n" + ended.stderr).decode("utf-8", "replace")
    lines = [line.strip() for line in said.splitlines() if line.strip() and "DEPRECATED" not in line]
    return one_line("; ".join(lines[-4:]) or "the builder said nothing", limit=600, keep="end")
