"""A Docker engine of a test's own, which may be killed: nobody else's containers are in it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lego_harness.sandbox import docker_engine

_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "docker_engine.sh"


class OwnEngine:
    """Where it is, and its processes as the host sees them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = f"unix://{folder}/engine.sock"
        self.env = {**os.environ, "LEGO_DOCKER_HOME": str(folder / "engine"), "DOCKER_HOST": self.host}

    def docker(self, *words: str) -> str:
        """What the client prints; raises CalledProcessError."""
        return subprocess.run(
            ["docker", *words], env=self.env, capture_output=True, text=True, check=True
        ).stdout

    def control(self, word: str) -> None:
        subprocess.run([_SCRIPT, word], env=self.env, check=True, capture_output=True)

    def load(self, image: str) -> None:
        """Copy an image from the engine that everybody shares."""
        file = self.folder / "image.tar"
        subprocess.run(["docker", "save", "--output", file, image], check=True, capture_output=True)
        self.docker("load", "--input", str(file))
        file.unlink()

    def pids(self, program: str) -> list[int]:
        """Processes of this engine by the name they were started under."""
        found: list[int] = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                argv = entry.read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if Path(argv[0]).name == program and any(str(self.folder) in word for word in argv):
                found.append(int(entry.parent.name))
        return found

    def containers(self) -> list[str]:
        return self.docker("ps", "--all", "--quiet", "--filter", "label=lego.run").split()

    def kill_container(self) -> bool:
        """End the first process of some sandbox behind the engine's back; whether there was one."""
        for name in self.containers():
            with suppress(subprocess.CalledProcessError, ProcessLookupError):  # it ended since it was listed
                if pid := int(self.docker("inspect", "--format", "{{.State.Pid}}", name)):
                    os.kill(pid, signal.SIGKILL)
                    return True
        return False

    def wait_until_whole(self, *, within_s: float = 240.0) -> None:
        """Until it runs containers again; raises TimeoutError."""
        deadline = time.monotonic() + within_s
        probe = ["docker", "run", "--rm", "--network=none", docker_engine.default_image(), "true"]
        while subprocess.run(probe, env=self.env, capture_output=True).returncode != 0:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the engine in {self.folder} does not run containers again")
            time.sleep(0.2)


@contextmanager
def own_engine() -> Iterator[OwnEngine]:
    """A running engine that holds the base image; nothing of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="lego-engine-"))
    engine = OwnEngine(folder)
    try:
        engine.control("engine")
        engine.load(docker_engine.default_image())
        yield engine
    finally:
        engine.control("down")
        shutil.rmtree(folder)
