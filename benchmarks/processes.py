"""Programs under test: started in processes of their own, watched from outside, ended for sure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks import cores

ROOT = Path(__file__).parents[1]
START_S = 180.0


@contextmanager
def program(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    under_test: bool = True,
) -> Generator[tuple[psutil.Process, dict[str, Any]]]:
    """A program that says in one line of JSON where it serves; one `under_test` has a core of its own."""
    with (
        (log or Path(os.devnull)).open("wb") as errors,
        tempfile.TemporaryDirectory() as scratch,
        cores.aside(),
    ):
        process = subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env=environment({"TMPDIR": scratch, **(env or {})}),
            start_new_session=True,
        )
        try:
            if under_test:
                psutil.Process(process.pid).cpu_affinity(list(cores.own()))
            assert process.stdout is not None
            said = next((line for line in process.stdout if line.startswith(b"{")), b"")
            if not said:
                raise RuntimeError(f"{' '.join(argv)} ended with code {process.wait()}; see {log}")
            yield psutil.Process(process.pid), json.loads(said)
        finally:
            end(process)


def module(name: str, *arguments: str) -> list[str]:
    """The command line of one of our own modules."""
    return [sys.executable, "-m", name, *arguments]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a program under test may see: no proxies, no keys, one thread."""
    return {**paths_of_ours(), "OMP_NUM_THREADS": "1", **(more or {})}


def paths_of_ours() -> dict[str, str]:
    """What every program needs that is ours."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "LEGO_CACHE") if key in os.environ}
    return {**kept, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "core", ROOT / "harness_adapters")))}


def end(process: subprocess.Popen[bytes]) -> None:
    """The process and all that it started."""
    family = [process.pid, *(child.pid for child in _children(process.pid))]
    for pid in reversed(family):
        _kill(pid)
    process.wait()
    if process.stdout:
        process.stdout.close()


def cpu_s(process: psutil.Process) -> float:
    """CPU time of a process with all its threads and children, from the scheduler's nanoseconds."""
    return sum(_scheduled_s(pid) for pid in (process.pid, *(child.pid for child in _children(process.pid))))


def memory(process: psutil.Process) -> int:
    """Bytes that would be free without the process and its children."""
    return sum(one.memory_full_info().uss for one in (process, *process.children(recursive=True)))


def wait_until_served(url: str, process: psutil.Process) -> None:
    """Until something answers there."""
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up and process.status() != psutil.STATUS_ZOMBIE:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"nothing is served at {url}")


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _kill(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).kill()


def _scheduled_s(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
