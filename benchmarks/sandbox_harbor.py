"""Harbor's Docker environment, from PyPI into an environment of its own, over Debian's Compose.

Owns what it takes to start it: a Python 3.12 or newer as our own harnesses find or make one, and Compose 2, of the
client where it has that, else Debian 13's package unpacked beside the cache. Where either is not to be had, SetupError
says why.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from benchmarks.checkpoint import cache
from benchmarks.containers import LABEL, scratch
from benchmarks.contestants import environment
from lego_harness.adapters.pythons import find_python312
from lego_harness.errors import SetupError
from lego_harness.sandbox import docker_engine as engine
from lego_harness.sandbox.docker_container import labels
from lego_harness.text import one_line

_PLUGIN = "usr/libexec/docker/cli-plugins/docker-compose"
_LIMIT_S = 900


def starter() -> Callable[[int], list[float]]:
    """Starts so many of them at once and tells the seconds of each; raises SetupError."""
    python = find_python312()
    if python is None:
        raise SetupError("Harbor needs Python 3.12 or newer, and none is on PATH or under pyenv")
    config = _compose()
    try:
        return functools.partial(_started, environment("harbor", python=python), config)
    except subprocess.CalledProcessError as error:
        raise SetupError(f"Harbor cannot be installed: {error}") from error


def _started(python: str, config: Path | None, at_once: int) -> list[float]:
    env = {**os.environ, "DOCKER_HOST": engine.host(), **({"DOCKER_CONFIG": str(config)} if config else {})}
    with scratch("harbor-task") as folder:
        said = {"network_mode": "none", "labels": labels(LABEL)}
        (folder / "docker-compose.yaml").write_text(json.dumps({"services": {"main": said}}))
        program = [python, str(Path(__file__).with_name("start_harbor.py"))]
        ended = subprocess.run(
            [*program, str(folder), engine.default_image(), str(at_once)],
            env=env,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
    if ended.returncode != 0:
        raise RuntimeError(f"Harbor's environments do not start: {ended.stderr.strip()[-1000:]}")
    return json.loads(ended.stdout.splitlines()[-1])


def _compose() -> Path | None:
    """The client's configuration folder that has Compose; None where the client has it by itself."""
    if _works({}):
        return None
    folder = cache() / "compose"
    plugin = folder / "cli-plugins" / "docker-compose"
    if not plugin.exists():
        _unpack(folder)
    if not _works({"DOCKER_CONFIG": str(folder)}):
        raise SetupError(f"Harbor needs Compose 2 of the docker client, and {plugin} does not run here")
    return folder


def _unpack(folder: Path) -> None:
    if shutil.which("mmdebstrap") is None:
        raise SetupError(
            "Harbor needs Compose 2, which the docker client has not; with mmdebstrap Debian 13's is unpacked"
        )
    shutil.rmtree(folder, ignore_errors=True)
    root = folder / "root"
    folder.mkdir(parents=True)
    argv = ["mmdebstrap", "--quiet", "--variant=extract", "--include=docker-compose", "trixie", str(root)]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=_LIMIT_S)
    if ended.returncode != 0:
        raise SetupError(f"Debian's Compose cannot be unpacked: {one_line(ended.stderr, keep='end')}")
    (folder / "cli-plugins").mkdir()
    (folder / "cli-plugins" / "docker-compose").symlink_to(root / _PLUGIN)


def _works(env: dict[str, str]) -> bool:
    asked = subprocess.run(
        [*engine.cli(), "compose", "version"], env={**os.environ, **env}, capture_output=True
    )
    return asked.returncode == 0
