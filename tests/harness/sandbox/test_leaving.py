"""What is taken out of a sandbox, and that nothing else of it stays."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_harness.sandbox import ownership
from lego_harness.sandbox.archive import pack, unpack
from lego_harness.sandbox.base import MAX_EXPORT_BYTES, MAX_EXPORT_FILES, Limits, SandboxBackend, SandboxSpec
from tests.support.sandboxes import Sleeper, guards_of

Spec = Callable[..., SandboxSpec]
OPENS_AND_WAITS = """
import asyncio, sys
from lego_harness.sandbox.base import Phase, SandboxSpec
from lego_harness.sandbox.choose import choose_backend

async def main():
    spec = SandboxSpec(phase=Phase.SETUP, files={}, label=sys.argv[2])
    async with choose_backend(sys.argv[1]).open(spec) as sandbox:
        await sandbox.exec(["sh", "-c", sys.argv[3]], timeout_s=1000)

asyncio.run(main())
"""


async def test_only_regular_files_are_exported(backend: SandboxBackend, spec: Spec) -> None:
    script = r"""
    ln -s /etc/passwd link; ln -s / folder; mkfifo pipe; ln a.txt hard
    mkdir -p deep/er closed; echo 1 > deep/er/x; echo 2 > closed/y; chmod 000 closed/y closed
    printf 3 > "$(printf 'new\nline')"; chmod u+s hard; python3 -c "
import socket; socket.socket(socket.AF_UNIX).bind('sock')"
    """
    async with backend.open(spec()) as sandbox:
        result = await sandbox.exec(["bash", "-c", script], timeout_s=20)
        files = await sandbox.export()
    assert result.exit_code == 0, result.stderr
    assert files == {
        "a.txt": b"hello\n",
        "closed/y": b"2\n",
        "deep/er/x": b"1\n",
        "hard": b"hello\n",
        "new\nline": b"3",
    }


@pytest.mark.long
async def test_an_export_stops_just_past_its_bounds(backend: SandboxBackend, spec: Spec) -> None:
    async with backend.open(spec(limits=Limits(disk_mb=512))) as sandbox:
        await sandbox.exec(["truncate", "-s", f"{MAX_EXPORT_BYTES + 10**6}", "huge"], timeout_s=20)
        files = await sandbox.export()
        assert sum(map(len, files.values())) == MAX_EXPORT_BYTES + 1
        many = f"import os\nos.remove('huge')\nfor i in range({MAX_EXPORT_FILES + 500}): open(f'f{{i}}', 'w').close()"
        await sandbox.exec(["python3", "-c", many], timeout_s=60)
        assert len(await sandbox.export()) == MAX_EXPORT_FILES + 1


async def test_what_still_runs_is_ended_before_the_export(backend: SandboxBackend, spec: Spec) -> None:
    forever = Sleeper()
    async with backend.open(spec()) as sandbox:
        process = await asyncio.create_subprocess_exec(
            *sandbox.exec_prefix(), "sh", "-c", f"{forever.command}; true"
        )
        await forever.started()
        await sandbox.export()
        assert forever.survivors() == []
        await process.wait()


async def test_leaving_removes_every_process_and_file(
    backend: SandboxBackend, spec: Spec, label: str
) -> None:
    forever = Sleeper()
    async with backend.open(spec()) as sandbox:
        script = f"setsid {forever.command} >/dev/null 2>&1 & mkdir -p d && touch d/f && chmod 000 d"
        await sandbox.exec(["bash", "-c", script], timeout_s=20)
    assert forever.survivors() == []
    assert _traces(label) == []


async def test_a_cancelled_opening_leaves_nothing(backend: SandboxBackend, spec: Spec, label: str) -> None:
    async def use() -> None:
        async with backend.open(spec()) as sandbox:
            await sandbox.exec(["sleep", "1000"], timeout_s=1000)

    task = asyncio.create_task(use())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _traces(label) == []


async def test_reaping_takes_what_a_killed_process_left_and_nothing_else(
    backend: SandboxBackend, spec: Spec, label: str
) -> None:
    forever = Sleeper()
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPENS_AND_WAITS, backend.name, label, forever.command
    )
    await forever.started()
    async with backend.open(spec()) as living:
        assert await backend.reap(label) == 0
        assert [one.is_orphan for one in await backend.standing(label)] == [False, False]
        for guard in guards_of(victim.pid):
            os.kill(guard, signal.SIGKILL)
        victim.send_signal(signal.SIGKILL)
        await victim.wait()
        assert await backend.reap(label) == 1
        assert forever.survivors() == []
        assert (await living.exec(["cat", "a.txt"], timeout_s=20)).stdout == "hello\n"
    assert _traces(label) == []


def test_an_owner_is_gone_when_its_process_is() -> None:
    mine = ownership.me()
    boot, namespace, _, _ = mine.split("/")
    assert not ownership.is_gone(mine)
    assert ownership.is_gone(f"{boot}/{namespace}/{os.getpid()}/1")
    assert ownership.is_gone(f"other/{namespace}/{os.getpid()}/1")
    assert not ownership.is_gone(f"{boot}/pid:[1]/{os.getpid()}/1")
    assert ownership.is_gone("")


NAMES = st.lists(st.text("abcé .\n", min_size=1, max_size=4), min_size=1, max_size=3).map("/".join)


@given(
    st.dictionaries(NAMES.filter(lambda n: all(p.strip(".") for p in n.split("/"))), st.binary(max_size=99))
)
def test_files_survive_a_tar_stream(files: dict[str, bytes]) -> None:
    assert unpack(pack(files)) == files


@given(st.binary(max_size=2000), st.integers(0, 4000))
def test_a_broken_tar_stream_gives_what_came_before(noise: bytes, cut: int) -> None:
    whole = pack({"a": b"1", "b": b"2" * 600})
    found = unpack(whole[:cut] + noise)
    assert cut < 1024 or found["a"] == b"1"
    assert cut < 2560 or found["b"] == b"2" * 600


def _traces(label: str) -> list[str]:
    """Whatever of a run's sandboxes is left on this machine."""
    from lego_harness.sandbox import runtime

    folder = runtime.label_folder(label)
    left = [str(path) for path in folder.iterdir()] if folder.exists() else []
    if os.environ.get("PYTEST_CURRENT_TEST", "").find("docker") >= 0:
        words = ["docker", "ps", "--all", "--quiet", "--filter", f"label=lego.run={label}"]
        left += subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return left
