"""What a task or an agent may bring along that is too much, and whom it harms: nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from lego_harness.errors import SetupError
from lego_harness.sandbox.base import MAX_EXPORT_BYTES, MAX_EXPORT_FILES, Limits, SandboxBackend, SandboxSpec
from tests.support.sandboxes import Sleeper, backend_called

Spec = Callable[..., SandboxSpec]
FLOOD = "head -c 10G /dev/zero | tee /dev/stderr"
"""10 GB on each stream."""


@pytest.fixture
def docker() -> SandboxBackend:
    return backend_called("docker")


@pytest.mark.docker
@pytest.mark.slow
async def test_an_image_that_is_not_there_is_a_failed_set_up_that_names_it(
    docker: SandboxBackend, spec: Spec, label: str
) -> None:
    with pytest.raises(SetupError, match=r"image lego/none:1 is not there; build it"):
        async with docker.open(spec(image="lego/none:1")):
            pass
    assert await docker.standing(label) == []


@pytest.mark.docker
@pytest.mark.slow
async def test_a_full_disk_ends_writing_in_its_own_sandbox_only(docker: SandboxBackend, spec: Spec) -> None:
    fill = "head -c 1G /dev/zero > big; echo $?; head -c 1G /dev/zero > /tmp/big; echo $?; echo > /big"
    async with (
        docker.open(spec(limits=Limits(disk_mb=32))) as full,
        docker.open(spec(limits=Limits(disk_mb=32))) as other,
    ):
        result = await full.exec(["sh", "-c", fill], timeout_s=60)
        assert result.stdout == "1\n1\n"
        assert result.stderr.count("No space left on device") == 2
        assert "Read-only file system" in result.stderr
        assert (await other.exec(["sh", "-c", "echo fine > x && cat x"], timeout_s=60)).stdout == "fine\n"
        exported = await full.export()
        assert exported["a.txt"] == b"hello\n"
        assert 30 * 2**20 < len(exported["big"]) <= 32 * 2**20


@pytest.mark.docker
@pytest.mark.slow
async def test_a_fork_bomb_and_a_flood_of_output_leave_another_sandbox_alone(
    docker: SandboxBackend, spec: Spec
) -> None:
    forever = Sleeper()
    bomb = f"import os\nwhile True:\n  try: os.posix_spawnp('sleep', {forever.argv!r}, os.environ)\n  except OSError: pass"
    async with (
        docker.open(spec(limits=Limits(pids=64, cpus=0.5))) as bombed,
        docker.open(spec(limits=Limits(output_bytes=1000, cpus=0.5))) as flooded,
        docker.open(spec()) as other,
    ):
        harm = asyncio.gather(
            bombed.exec(["python3", "-c", bomb], timeout_s=12),
            flooded.exec(["sh", "-c", FLOOD], timeout_s=12),
        )
        assert (await other.exec(["cat", "a.txt"], timeout_s=60)).stdout == "hello\n"
        bomb_result, flood_result = await harm
        assert bomb_result.timed_out
        assert flood_result.timed_out
        assert (len(flood_result.stdout), len(flood_result.stderr)) == (1000, 1000)
        assert forever.survivors() == []
        for harmed in (bombed, flooded):
            assert (await harmed.exec(["cat", "a.txt"], timeout_s=60)).stdout == "hello\n"
            assert await harmed.export() == {"a.txt": b"hello\n"}


@pytest.mark.docker
@pytest.mark.slow
async def test_200_000_files_are_exported_up_to_the_bound(docker: SandboxBackend, spec: Spec) -> None:
    many = "import os\nfor d in range(200):\n  os.mkdir(f'd{d}')\n  for i in range(1000): open(f'd{d}/{i}', 'w').close()"
    async with docker.open(spec()) as sandbox:
        made = await sandbox.exec(["python3", "-c", many], timeout_s=120)
        assert made.exit_code == 0, made.stderr
        assert len(await sandbox.export()) == MAX_EXPORT_FILES + 1


async def test_devices_and_setuid_files_do_not_leave_the_sandbox_nor_act_in_it(
    backend: SandboxBackend, spec: Spec
) -> None:
    script = r"""
    mknod disk b 8 0 2>/dev/null && echo made a device
    mknod null c 1 3 2>/dev/null && echo made a device
    cp /usr/bin/id tool && chmod 6755 tool && ./tool -u | grep -qx 0 && echo root
    printf x > "$(printf 'two\nlines')"; printf y > ./-rf; printf z > "$(printf 'tab\there')"; true"""
    async with backend.open(spec(files={})) as sandbox:
        result = await sandbox.exec(["bash", "-c", script], timeout_s=60)
        exported = await sandbox.export()
    assert result.stdout == ""
    assert {name: text for name, text in exported.items() if name != "tool"} == {
        "two\nlines": b"x",
        "-rf": b"y",
        "tab\there": b"z",
    }


async def test_what_tools_cache_does_not_use_up_the_bounds_of_an_export(
    backend: SandboxBackend, spec: Spec
) -> None:
    """A type checker leaves more than any honest work is."""
    script = "mkdir -p p/.mypy_cache/x && echo y > p/y && head -c 70M /dev/zero > p/.mypy_cache/x/huge"
    async with backend.open(spec()) as sandbox:
        assert (await sandbox.exec(["sh", "-c", script], timeout_s=60)).exit_code == 0
        assert await sandbox.export() == {"a.txt": b"hello\n", "p/y": b"y\n"}


@pytest.mark.parametrize(("name", "depth"), [("a", 3000), ("long" * 50, 30)], ids=["deep", "long"])
async def test_what_lies_deeper_than_any_path_is_left_out_and_goes_with_the_sandbox(
    backend: SandboxBackend, spec: Spec, label: str, name: str, depth: int
) -> None:
    """An agent goes there step by step."""
    nest = f"import os\nfor _ in range({depth}):\n  os.mkdir({name!r}); os.chdir({name!r})\nopen('x', 'w').close()"
    async with backend.open(spec()) as sandbox:
        made = await sandbox.exec(["python3", "-c", nest], timeout_s=60)
        assert made.exit_code == 0, made.stderr
        assert await sandbox.export() == {"a.txt": b"hello\n"}
    assert await backend.standing(label) == []


@pytest.mark.docker
@pytest.mark.slow
async def test_a_tree_that_takes_for_ever_to_pack_is_cut(docker: SandboxBackend, spec: Spec) -> None:
    """Thirty thousand folders in each other: their names alone are a gigabyte."""
    nest = "import os\nfor _ in range(30_000):\n  os.mkdir('a'); os.chdir('a')"
    async with docker.open(spec()) as sandbox:
        made = await sandbox.exec(["python3", "-c", nest], timeout_s=120)
        assert made.exit_code == 0, made.stderr
        assert (await sandbox.exec(["truncate", "-s", "1T", "huge"], timeout_s=60)).exit_code == 0
        exported = await sandbox.export()
    assert exported.keys() <= {"a.txt", "huge"}
    assert len(exported["huge"]) > MAX_EXPORT_BYTES - 10
