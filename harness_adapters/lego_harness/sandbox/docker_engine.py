"""Calls to the Docker engine: containers started, looked at, removed. Blocking; callers use threads.

Owns where the engine is and which image serves by default. Invariant: what one call could not find out is
said, never guessed: a container of which the engine says nothing is neither running nor gone. Knows nothing
of phases or grading.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from docker.errors import DockerException, ImageNotFound, NotFound

from lego_harness.errors import SetupError
from lego_harness.sandbox import docker_connection, docker_container
from lego_harness.sandbox.base import SandboxSpec
from lego_harness.sandbox.shims import end_shim

_HOST = "unix:///var/run/docker.sock"
_HINT = "start an engine and build the image with scripts/docker_engine.sh up, or use bubblewrap"
_PATIENCE_S = 180
"""For one call: on a machine with far too much to do, starting a container takes a minute."""
_REMOVAL_S = 60.0
"""How long a removal waits for an engine that is restarting."""
FAULTS = (DockerException, requests.RequestException)


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """What the engine says about one container."""

    id: str
    image: str
    """Digest of its image."""
    pid: int
    """Of its first process, as the engine's machine counts; 0 when it has ended."""
    is_running: bool
    is_out_of_memory: bool
    """Its first process was killed for want of memory."""


def default_image() -> str:
    """Tag of the base image, named by its recipe; scripts/docker_engine.sh builds it."""
    recipe = Path(__file__).with_name("image.recipe").read_bytes()
    return f"lego/py:{hashlib.sha256(recipe).hexdigest()[:12]}"


def host() -> str:
    """Where the engine listens."""
    return os.environ.get("DOCKER_HOST") or _HOST


def cli() -> list[str]:
    """The command-line client, pointed at the engine the library talks to."""
    return ["docker", "--host", host()]


def fault(runtime: str | None = None) -> str | None:
    """Why sandboxes cannot be made, proven by running a container; None when they can."""
    if shutil.which("docker") is None:
        return f"no docker client on PATH; {_HINT}"
    try:
        with client() as engine:
            if runtime and runtime not in engine.info()["Runtimes"]:
                return (
                    f"the engine at {host()} has no runtime {runtime}, expected one of that name; install gVisor "
                    f'and add "runtimes": {{"{runtime}": {{"path": "/usr/bin/{runtime}"}}}} to its daemon.json'
                )
            engine.containers.run(
                default_image(),
                ["true"],
                remove=True,
                network_mode="none",
                labels=docker_container.labels("check"),
                **({"runtime": runtime} if runtime else {}),
            )
    except ImageNotFound:
        return f"image {default_image()} is not there; build it with scripts/docker_engine.sh image"
    except FAULTS as error:
        return f"no engine runs containers ({last_line(str(error).encode())}); {_HINT}"
    return None


def start(name: str, spec: SandboxSpec, *, runtime: str | None = None, network: str = "none") -> State:
    """Create and start a container; raises SetupError."""
    if spec.proxy_socket is not None:
        spec.proxy_socket.chmod(0o666)  # its folder keeps others out; the uid inside must connect
    image = spec.image or default_image()
    try:
        with client() as engine:
            volumes: dict[str, Any] = {}
            if spec.image:
                volumes = engine.images.get(image).attrs["Config"].get("Volumes") or {}
            described = docker_container.described(spec, runtime=runtime, network=network, volumes=volumes)
            container = engine.containers.create(image, name=name, **described)
            container.start()
            return _state(engine.api.inspect_container(container.id))
    except ImageNotFound as error:
        hint = "build it" if spec.image else "build it with scripts/docker_engine.sh image"
        raise SetupError(f"image {image} is not there; {hint}") from error
    except FAULTS as error:
        raise SetupError(f"container {name} did not start: {last_line(str(error).encode())}") from error


def connect(name: str, spec: SandboxSpec) -> str:
    """Make a bridge for one sandbox, under its name; raises SetupError."""
    try:
        with client() as engine:
            engine.networks.create(name, driver="bridge", labels=docker_container.labels(spec.label))
    except FAULTS as error:
        raise SetupError(f"no network for {name}: {last_line(str(error).encode())}") from error
    return name


def disconnect(name: str) -> None:
    """Remove the bridge of a container that is gone; raises SetupError."""
    try:
        with client() as engine:
            engine.networks.get(name).remove()
    except NotFound:
        return
    except FAULTS as error:
        raise SetupError(f"the network {name} was not removed: {last_line(str(error).encode())}") from error


def state(name: str) -> State | None:
    """None when there is no such container; raises SetupError when the engine does not say."""
    try:
        with client() as engine:
            return _state(engine.api.inspect_container(name))
    except NotFound:
        return None
    except FAULTS as error:
        raise SetupError(f"the engine says nothing of {name}: {last_line(str(error).encode())}") from error


def kill(name: str) -> None:
    """End a container whose processes cannot be ended from inside."""
    with contextlib.suppress(*FAULTS), client() as engine:
        engine.containers.get(name).kill()


def remove(name: str, *, to_the_bone: bool = False) -> None:
    """Remove a container and its volumes; one that is gone already is fine.

    Waits for an engine that is away, since a container left behind would run for ever; `to_the_bone` also
    looks for what a killed engine forgets. Raises SetupError.
    """
    deadline = time.monotonic() + _REMOVAL_S
    removal = _Removal(name)
    while not removal.is_done():
        if time.monotonic() > deadline:
            raise SetupError(f"container {name} was not removed: {removal.fault}; see `lego sandbox reap`")
        time.sleep(0.25)
    if to_the_bone and removal.id:
        end_shim(removal.id)


def last_line(text: bytes) -> str:
    """The last line of an engine's or client's complaint, bounded."""
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else "no reason given"


@contextlib.contextmanager
def client() -> Generator[Any]:
    """One conversation with the engine; its connections end with it."""
    engine = docker_connection.client(host(), timeout_s=_PATIENCE_S)
    try:
        yield engine
    finally:
        engine.close()


def _state(inspected: dict[str, Any]) -> State:
    said = inspected["State"]
    return State(
        id=inspected["Id"],
        image=inspected["Image"],
        pid=int(said["Pid"]),
        is_running=said["Status"] == "running",
        is_out_of_memory=bool(said["OOMKilled"]),
    )


class _Removal:
    """Tries to remove one container, and remembers which it was."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.id = ""
        self.fault = ""

    def is_done(self) -> bool:
        """Whether the engine says that there is no such container any more."""
        try:
            with client() as engine:
                self.id = str(engine.api.inspect_container(self._name)["Id"])
                engine.api.remove_container(self._name, force=True, v=True)
        except NotFound:
            return True
        except FAULTS as error:  # also a conflict: somebody else is removing it
            self.fault = last_line(str(error).encode())
            return False
        return True
