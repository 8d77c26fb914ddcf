"""A verdict with the packaged toolchain, against pytest installed in the container that then runs the same tests.

Ours is a whole grading: a fresh sandbox without network, hidden tests beside their contradictions, must-fail canaries.
The other believes an exit code, and needs the package index.
"""

from __future__ import annotations

import asyncio
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks.containers import LABEL, Compared, Pair, call, equipped, run, scratch, seconds, trusting
from lego_harness.grading.grader import Grader
from lego_harness.grading.toolchain import PACKAGES
from lego_harness.redteam.target import good_task
from lego_harness.sandbox.archive import pack
from lego_harness.sandbox.docker import DockerBackend
from lego_harness.tasks.folder import tree_files, workspace_files
from lego_harness.types import Task

TIMES = 3
PINNED = " ".join(f"{package}=={version(package)}" for package in PACKAGES)
INSTALL = f"python3 -m pip install --quiet --break-system-packages {PINNED}"
_TEST = "mkdir /w && cd /w && tar -xf - && {install} && PYTHONPATH=. python3 -m pytest -q -p no:cacheprovider hidden"


def measure(times: int = TIMES, install: str = INSTALL, image: str | None = None) -> Compared:
    """Seconds of a verdict on a solved task; `install` runs in `image`."""
    with scratch("grading") as folder:
        task = good_task(folder)
        image = image or asyncio.run(equipped("python3-pip"))
        packaged = asyncio.run(_packaged_s(task, times))
        installed = [_installed_s(task, image, install) for _ in range(times)]
    pairs = [
        Pair(what=f"{number + 1}", with_s=ours, without_s=other)
        for number, (ours, other) in enumerate(zip(packaged, installed, strict=True))
    ]
    return Compared(name="packaged grading", pairs=pairs, paper=0.71)


def _solved(task: Task) -> dict[str, bytes]:
    files = workspace_files(task)
    return {name: content.replace(b"prices[1:]", b"prices") for name, content in files.items()}


async def _packaged_s(task: Task, times: int) -> list[float]:
    grader, took = Grader(DockerBackend(), label=LABEL), list[float]()
    for number in range(times + 1):  # the first one proves the task as well, which is remembered
        started = time.perf_counter()
        grade = await grader.grade(task, _solved(task))
        took += [time.perf_counter() - started] if number else []
        if grade.reward != 1:
            raise RuntimeError(f"a solved task was not paid: {grade.detail}")
    return took


def _installed_s(task: Task, image: str, install: str) -> float:
    hidden = {f"hidden/{Path(name)}": content for name, content in tree_files(task.tests).items()}
    files = pack({**_solved(task), **hidden})
    command = ["sh", "-ec", _TEST.format(install=install)]
    flags = ("--rm", "--interactive", *trusting())
    return seconds(lambda: call(run(*flags, image=image, command=command, network="host"), stdin=files))
