"""Which sandbox backend serves a run.

Invariant: Docker is chosen only after its engine ran a container; nothing falls back silently when
a backend was named. Whether the chosen backend works is proven by its own `check`.
"""

from __future__ import annotations

from lego_harness.errors import SetupError, UsageError
from lego_harness.sandbox.base import SandboxBackend
from lego_harness.sandbox.bubblewrap import BubblewrapBackend
from lego_harness.sandbox.bwrap_argv import missing_programs

BACKENDS = ("auto", "docker", "gvisor", "bubblewrap")


def choose_backend(name: str, *, warm: int = 0) -> SandboxBackend:
    """The backend called `name`; `auto` prefers a Docker engine that answers, then bubblewrap.

    `warm` containers are started ahead of an agent phase, until the backend is closed.

    Raises UsageError for an unknown name, SetupError when `auto` finds neither.
    """
    if name not in BACKENDS:
        raise UsageError(f"sandbox backend {name!r}: expected one of {', '.join(BACKENDS)}")
    if name == "bubblewrap":
        return BubblewrapBackend()
    from lego_harness.sandbox import docker_engine  # slow to import
    from lego_harness.sandbox.docker import DockerBackend

    if name == "docker":
        return DockerBackend(warm=warm)
    if name == "gvisor":
        return DockerBackend(runtime="runsc", warm=warm)
    fault = docker_engine.fault()
    if fault is None:
        return DockerBackend(warm=warm)
    if missing := missing_programs():
        raise SetupError(
            f"no sandbox backend: Docker: {fault}; bubblewrap: {', '.join(missing)} not on PATH; "
            "install bubblewrap (Debian: apt-get install bubblewrap) or start a Docker engine (scripts/docker_engine.sh)"
        )
    return BubblewrapBackend()
