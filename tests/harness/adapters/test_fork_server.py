"""A harness imported once and forked per rollout: whatever it does, nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

import lego_harness.adapters as adapters
from lego_harness.adapters.forked import Forked
from lego_harness.adapters.install import Harness
from lego_harness.errors import SetupError
from tests.support.processes import Watch, descendants

PROGRAMS = Path(adapters.__file__).parent / "programs"
PROGRAM = """
import os, subprocess, sys, tempfile
sys.path.append({programs!r})
from fork_server import import_what_it_uses, serve

def load():
    tempfile.gettempdir()  # remembered from here on, as where a library asks while it is imported
    import_what_it_uses(call)
    return "1"

def call():
    os.read(os.open({gate!r}, os.O_RDONLY), 1)

def run(argv):
    name, *rest = argv
    if name == "leave":  # a daemon in a session of its own, which knows nothing of its rollout
        subprocess.Popen(["setsid", "sh", "-c", "sleep 1000 & sleep 1000"], start_new_session=True, env={{}})
    if name == "say":
        print(*rest, os.environ["HOME"] == os.getcwd() == tempfile.gettempdir(), flush=True)
    if name == "hang":
        subprocess.run(["sleep", "1000"])
    return int(rest[0]) if name == "exit" else 0

if __name__ == "__main__":
    serve(load, run)
"""


class Gate:
    """The toy's import ends when this is opened."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDWR)

    def open(self) -> None:
        os.write(self._fd, b".")

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.close()


@pytest_asyncio.fixture
async def toy(tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Forked]:
    monkeypatch.setenv("LEGO_CACHE", str(tmp_path / "cache"))
    program = tmp_path / "toy.py"
    program.write_text(PROGRAM.format(programs=str(PROGRAMS), gate=str(gate.path)))
    forked = Forked(_harness("1"), str(program), {})
    yield forked
    await forked.close()
    assert ours() == []


@pytest.fixture(autouse=True)
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ran before the test, such as multiprocessing's tracker, is none of its processes."""
    monkeypatch.setattr(sys.modules[__name__], "OTHERS", frozenset(descendants(os.getpid())))


OTHERS: frozenset[int] = frozenset()


def ours() -> list[int]:
    return [pid for pid in descendants(os.getpid()) if pid not in OTHERS]


def the_server() -> int:
    """The process that forks: its parent holds it, nothing is below it between rollouts."""
    (server,) = [pid for pid in ours() if descendants(pid) == []]
    return server


def _harness(version: str) -> Harness:
    harness = Harness(name="toy", version=version, build=lambda _harness, _folder: None)
    (harness.folder / "bin").mkdir(parents=True)
    (harness.folder / "bin" / "python").symlink_to(sys.executable)
    return harness


async def test_each_rollout_has_a_process_a_home_and_an_exit_code_of_its_own(toy: Forked, gate: Gate) -> None:
    gate.open()
    told = await asyncio.gather(
        toy.run(lambda _home: ["say", "hello"], timeout_s=60),
        toy.run(lambda _home: ["exit", "7"], timeout_s=60),
    )
    assert [(exit_.exit_code, exit_.output) for exit_ in told] == [(0, "hello True\n"), (7, "")]


async def test_what_left_its_rollout_s_session_dies_with_it(toy: Forked, gate: Gate) -> None:
    gate.open()
    await toy.start()
    server = the_server()
    exit_ = await toy.run(lambda _home: ["leave"], timeout_s=60)
    assert (exit_.exit_code, descendants(server)) == (0, [])


async def test_a_rollout_out_of_time_is_killed_with_what_it_started(toy: Forked, gate: Gate) -> None:
    gate.open()
    await toy.start()
    server = the_server()
    running = asyncio.create_task(toy.run(lambda _home: ["hang"], timeout_s=1))
    exit_ = await running
    assert exit_.timed_out
    assert descendants(server) == []


async def test_giving_up_on_a_slow_import_leaves_it_to_the_next_rollout(toy: Forked, gate: Gate) -> None:
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await toy.run(lambda _home: ["say", "never"], timeout_s=60)
    importing = ours()
    gate.open()
    assert (await toy.run(lambda _home: ["say", "now"], timeout_s=60)).output == "now True\n"
    assert set(importing) & set(ours()), "the server that was importing was replaced"


async def test_closing_during_the_import_ends_it(toy: Forked) -> None:
    starting = asyncio.create_task(toy.start())
    while len(ours()) < 2:  # noqa: ASYNC110 another process has no event for us
        await asyncio.sleep(0)
    watch = Watch(ours())
    await toy.close()
    assert watch.survivors(within_s=20) == []
    with pytest.raises((asyncio.CancelledError, SetupError)):
        await starting


async def test_another_version_than_the_pinned_one_is_refused(
    toy: Forked, gate: Gate, tmp_path: Path
) -> None:
    gate.open()
    other = Forked(_harness("2"), str(tmp_path / "toy.py"), {})
    with pytest.raises(SetupError, match="toy says '1', expected '2'"):
        await other.start()
    await other.close()
