"""A whole image brought into the engine, and how many bytes that moved and wrote.

By `docker pull` from a registry of this machine where its program is there (Debian: apt-get install docker-registry),
else by `docker load` of a file. Owns the image and the registry: both are gone at the end. The base image's layers are
there beforehand, so that only the environment's own is brought, as with images that share a base.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.containers import call, forget, scratch
from benchmarks.environments import PLACE
from benchmarks.processes import end
from lego_harness.sandbox import docker_engine as engine
from lego_harness.sandbox.docker_connection import path_of

_START_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Transfer:
    """One image that is elsewhere."""

    tag: str
    way: str
    bring: Callable[[], int]
    """Gets it into the engine; how many bytes came."""


@contextmanager
def transfer(name: str, folder: Path) -> Generator[Transfer]:
    """The base image with `folder` in it, moved out of the engine."""
    if program := shutil.which("docker-registry"):
        with scratch("registry") as place, _registry(program, place) as (process, host):
            tag = f"{host}/lego/benchmark:{name}"
            with _built(tag, folder):
                call([*engine.cli(), "push", "--quiet", tag])
                forget(tag)
                yield Transfer(tag=tag, way="docker pull", bring=lambda: _pulled(tag, process))
        return
    tag = f"lego/benchmark:{name}"
    with scratch("saved") as place, _built(tag, folder):
        file = place / "image.tar"
        call([*engine.cli(), "save", "--output", str(file), tag])
        forget(tag)
        yield Transfer(tag=tag, way="docker load", bring=lambda: _loaded(file))


def engine_written() -> int | None:
    """Bytes that the engine's daemon and what it ran so far wrote to disks; None where it is out of sight."""
    path = path_of(engine.host())
    if path is None:
        return None
    with socket.socket(socket.AF_UNIX) as opened:
        opened.connect(path)
        said = opened.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, _, _ = struct.unpack("3i", said)
    return _io(pid, "write_bytes") if pid else None


@contextmanager
def _built(tag: str, folder: Path) -> Generator[None]:
    (folder / ".dockerignore").write_text("Dockerfile\n.dockerignore\n")
    (folder / "Dockerfile").write_text(f"FROM {engine.default_image()}\nCOPY . {PLACE}\n")
    try:
        env = {**os.environ, "DOCKER_BUILDKIT": "0"}
        subprocess.run([*engine.cli(), "build", "--quiet", f"--tag={tag}", str(folder)],
                       env=env, check=True, capture_output=True)  # fmt: skip
        for name in (".dockerignore", "Dockerfile"):  # of the image alone
            (folder / name).unlink()
        yield
    finally:
        forget(tag)


def _pulled(tag: str, registry: subprocess.Popen[bytes]) -> int:
    before = _io(registry.pid, "wchar")
    call([*engine.cli(), "pull", "--quiet", tag])
    return _io(registry.pid, "wchar") - before


def _loaded(file: Path) -> int:
    call([*engine.cli(), "load", "--quiet", "--input", str(file)])
    return file.stat().st_size


@contextmanager
def _registry(program: str, place: Path) -> Generator[tuple[subprocess.Popen[bytes], str]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        host = f"127.0.0.1:{free.getsockname()[1]}"
    config = place / "config.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {place}}}}}\nhttp: {{addr: {host}}}\n"
    )
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([program, "serve", str(config)], stdout=quiet, stderr=quiet)
    try:
        _wait(f"http://{host}/v2/", process)
        yield process, host
    finally:
        end(process)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < give_up:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.URLError:
            time.sleep(0.1)
    raise RuntimeError(f"no registry serves {url}")


def _io(pid: int, counter: str) -> int:
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{counter}:"))
