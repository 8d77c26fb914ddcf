"""Calls to the Docker engine: containers started, looked at, removed. Blocking; callers use threads.

Owns how a confined container is described to the engine and which image serves by default. Invariant:
nothing is removed that does not carry our labels. Knows nothing of phases or grading.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import DockerException, ImageNotFound, NotFound
from docker.types import Mount as DockerMount

from lego_harness.errors import SetupError
from lego_harness.sandbox import ownership
from lego_harness.sandbox.base import PROXY_SOCKET, WORKSPACE, SandboxSpec

AGENT = "1000:1000"
"""User of everything that is executed."""
_KEEPER = "65534:65534"
"""User of process 1, out of the agent's reach."""
_HOME = "/home/agent"
_RUN, _OWNER = "lego.run", "lego.owner"
_HOST = "unix:///var/run/docker.sock"
_HINT = "start an engine and build the image with scripts/docker_engine.sh up, or use bubblewrap"
_FAULTS = (DockerException, requests.RequestException)


def default_image() -> str:
    """Tag of the base image, named by its recipe; scripts/docker_engine.sh builds it."""
    recipe = Path(__file__).with_name("image.recipe").read_bytes()
    return f"lego/py:{hashlib.sha256(recipe).hexdigest()[:12]}"


def cli() -> list[str]:
    """The command-line client, pointed at the engine the library talks to."""
    return ["docker", "--host", os.environ.get("DOCKER_HOST") or _HOST]


def fault() -> str | None:
    """Why sandboxes cannot be made, proven by running a container; None when they can."""
    if shutil.which("docker") is None:
        return f"no docker client on PATH; {_HINT}"
    try:
        with _client() as client:
            labels = {_OWNER: ownership.me()}
            client.containers.run(default_image(), ["true"], remove=True, network_mode="none", labels=labels)
    except ImageNotFound:
        return f"image {default_image()} is not there; build it with scripts/docker_engine.sh image"
    except _FAULTS as error:
        return f"no engine runs containers ({last_line(str(error).encode())}); {_HINT}"
    return None


def start(name: str, spec: SandboxSpec) -> None:
    """Create and start a container; raises SetupError."""
    if spec.proxy_socket is not None:
        spec.proxy_socket.chmod(0o666)  # its folder keeps others out; the uid inside must connect
    image = spec.image or default_image()
    try:
        with _client() as client:
            client.containers.create(image, name=name, **_confined(spec)).start()
    except ImageNotFound as error:
        raise SetupError(
            f"image {image} is not there; build it with scripts/docker_engine.sh image"
        ) from error
    except _FAULTS as error:
        raise SetupError(f"container {name} did not start: {last_line(str(error).encode())}") from error


def is_running(name: str) -> bool:
    """Whether the engine says that the container runs; an engine that does not answer: no."""
    with contextlib.suppress(*_FAULTS), _client() as client:
        return client.containers.get(name).status == "running"
    return False


def kill(name: str) -> None:
    """End a container whose processes cannot be ended from inside."""
    with contextlib.suppress(*_FAULTS), _client() as client:
        client.containers.get(name).kill()


def remove(name: str) -> None:
    """Remove a container and its volumes; one that is gone already is fine. Raises SetupError."""
    try:
        with _client() as client:
            client.containers.get(name).remove(force=True, v=True)
    except NotFound:
        return
    except _FAULTS as error:
        raise SetupError(f"container {name} was not removed: {last_line(str(error).encode())}") from error


def reap(label: str) -> int:
    """Remove a run's containers whose owner has ended; how many there were. Raises SetupError."""
    chosen = {"label": f"{_RUN}={label}"}
    try:
        with _client() as client:
            found = client.containers.list(all=True, ignore_removed=True, filters=chosen)
            owned = [(container.name, container.labels.get(_OWNER, "")) for container in found]
    except _FAULTS as error:
        raise SetupError(
            f"containers of {label} cannot be listed: {last_line(str(error).encode())}"
        ) from error
    left = [name for name, owner in owned if ownership.is_gone(owner)]
    for name in left:
        remove(name)
    return len(left)


def last_line(text: bytes) -> str:
    """The last line of an engine's or client's complaint, bounded."""
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else "no reason given"


def _confined(spec: SandboxSpec) -> dict[str, Any]:
    limits = spec.limits
    memory = f"{limits.memory_mb + limits.disk_mb}m"  # a tmpfs counts as memory
    room = f"size={limits.disk_mb}m,uid=1000,gid=1000,mode=0755,exec"
    mounts = [DockerMount(m.target, str(m.source), type="bind", read_only=True) for m in spec.mounts]
    if spec.proxy_socket is not None:
        mounts.append(DockerMount(PROXY_SOCKET, str(spec.proxy_socket), type="bind"))
    return {
        "entrypoint": ["sleep", "infinity"],
        "command": [],
        "init": True,
        "user": _KEEPER,
        "labels": {_RUN: spec.label, _OWNER: ownership.me()},
        "hostname": "sandbox",
        "network_mode": "none",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "pids_limit": limits.pids,
        "mem_limit": memory,
        "memswap_limit": memory,
        "nano_cpus": int(limits.cpus * 1e9),
        "tmpfs": {WORKSPACE: room, "/tmp": room.replace("0755", "1777"), _HOME: room},
        "mounts": mounts,
        "working_dir": WORKSPACE,
        "environment": {"HOME": _HOME, "USER": "agent", "LANG": "C.UTF-8", "TERM": "dumb"},
    }


@contextlib.contextmanager
def _client() -> Generator[Any]:
    """One conversation with the engine; its connections end with it."""
    host = os.environ.get("DOCKER_HOST") or _HOST
    _refuse_silence(host)
    client: Any = docker.DockerClient(base_url=host, timeout=60)
    try:
        yield client
    finally:
        client.close()


def _refuse_silence(host: str) -> None:
    """Raise DockerException where nobody listens; the library would leave its socket open."""
    if not host.startswith("unix://"):
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(host.removeprefix("unix://"))
        except OSError as error:
            raise DockerException(f"{host}: {error.strerror or error}") from error
