"""A task whose image is there, against one whose image is built when it is wanted, from nothing to a first command.

Each image is the base with pip from Debian and one project from PyPI, as tasks of real projects have it. A word that
changes with every measurement keeps the engine's own cache of layers from answering.
"""

from __future__ import annotations

import asyncio
import shutil
import time
import uuid
from pathlib import Path

from benchmarks.containers import CERTIFICATES, LABEL, Compared, Pair, forget, scratch
from lego_harness.cache import cache_folder
from lego_harness.sandbox.base import Phase, SandboxSpec
from lego_harness.sandbox.docker import DockerBackend
from lego_harness.sandbox.images import content_key
from lego_harness.sandbox.runtimes import python_runtime

PROJECTS = ("toolz==1.2.0", "tabulate==0.10.0", "xmltodict==1.0.4")
FETCH = """ARG BASE
FROM $BASE
COPY word ca.crt /fetch/
RUN apt-get update -qq && apt-get install -qqy --no-install-recommends python3-pip
RUN PIP_CERT=/fetch/ca.crt python3 -m pip install --quiet --target /opt/project {project}
"""
BUILD = "ARG FETCHED\nFROM $FETCHED\nENV PYTHONPATH=/opt/project\nRUN python3 -c 'import {module}'\n"


def measure(projects: tuple[str, ...] = PROJECTS, fetch: str = FETCH) -> Compared:
    """Seconds of each project's task, with and without its image; needs the package indexes."""
    python_runtime(cache_folder())
    pairs = [asyncio.run(_pair(project, fetch)) for project in projects]
    return Compared(name="prebuilt task image", pairs=pairs, paper=33.2)


async def _pair(project: str, fetch: str) -> Pair:
    module = project.partition("=")[0]
    with scratch("task-image") as context:
        (context / "word").write_text(uuid.uuid4().hex)
        shutil.copy(CERTIFICATES, context / "ca.crt")
        (context / "Dockerfile.fetch").write_text(fetch.format(project=project))
        (context / "Dockerfile").write_text(BUILD.format(module=module))
        key = content_key(context)
        try:
            without_s = await _first_command(context, module)
            with_s = await _first_command(context, module)
        finally:
            forget(f"lego/task:{key}", f"lego/fetched:{key}")
            (cache_folder() / "images" / key).unlink(missing_ok=True)
    return Pair(what=module, with_s=with_s, without_s=without_s)


async def _first_command(context: Path, module: str) -> float:
    """By a backend that knows nothing yet."""
    spec = SandboxSpec(phase=Phase.AGENT, files={}, label=LABEL, context=context)
    started = time.perf_counter()
    async with DockerBackend().open(spec) as sandbox:
        done = await sandbox.exec(["python3", "-c", f"import {module}"], timeout_s=300)
        took = time.perf_counter() - started
    if done.exit_code != 0:
        raise RuntimeError(f"the image of {module} does not have it: {done.stderr[-300:]}")
    return took
