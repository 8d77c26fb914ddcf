"""What a command inside a sandbox gets, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from lego_harness.errors import SetupError
from lego_harness.sandbox.base import Limits, SandboxBackend, SandboxSpec
from tests.support.sandboxes import Sleeper

Spec = Callable[..., SandboxSpec]


async def test_check_proves_the_backend_by_use(backend: SandboxBackend) -> None:
    await backend.check()


async def test_a_command_sees_its_files_stdin_environment_and_folder(
    backend: SandboxBackend, spec: Spec
) -> None:
    async with backend.open(spec(files={"sub/a.txt": b"one\n"})) as sandbox:
        command = ["sh", "-c", "pwd; cat a.txt -; echo $COLOUR; exit 7"]
        result = await sandbox.exec(
            command, timeout_s=20, env={"COLOUR": "blue"}, cwd="/workspace/sub", stdin=b"two\n"
        )
    assert (result.stdout, result.exit_code) == ("/workspace/sub\none\ntwo\nblue\n", 7)


async def test_files_written_by_one_command_are_there_for_the_next(
    backend: SandboxBackend, spec: Spec
) -> None:
    async with backend.open(spec()) as sandbox:
        await sandbox.exec(
            ["sh", "-c", "echo 1 > /workspace/x; echo 2 > /tmp/y; echo 3 > $HOME/z"], timeout_s=20
        )
        result = await sandbox.exec(["sh", "-c", "cat /workspace/x /tmp/y $HOME/z"], timeout_s=20)
    assert result.stdout == "1\n2\n3\n"


async def test_python_git_and_a_user_name_are_there(backend: SandboxBackend, spec: Spec) -> None:
    async with backend.open(spec()) as sandbox:
        result = await sandbox.exec(
            ["sh", "-c", "whoami && git init -q && python3 -c 'print(6*7)'"], timeout_s=20
        )
    assert result.stdout == "agent\n42\n", result.stderr


async def test_programs_inside_reach_each_other_by_the_loopbacks_names(
    backend: SandboxBackend, spec: Spec
) -> None:
    script = (
        "import socket\n"
        "with socket.create_server(('localhost', 0)) as server:\n"
        "    socket.create_connection(('sandbox', server.getsockname()[1])).close()\n"
    )
    async with backend.open(spec()) as sandbox:
        result = await sandbox.exec(["python3", "-c", script], timeout_s=20)
    assert (result.exit_code, result.stderr) == (0, "")


async def test_a_timeout_ends_the_whole_process_tree_and_keeps_the_output(
    backend: SandboxBackend, spec: Spec
) -> None:
    forever = Sleeper()
    async with backend.open(spec()) as sandbox:
        script = f"{forever.command} & setsid sh -c '{forever.command}' & nohup {forever.command} & echo begun; {forever.command}"
        result = await sandbox.exec(["bash", "-c", script], timeout_s=5)
        assert (result.timed_out, result.stdout) == (True, "begun\n")
        assert forever.survivors() == []
        assert (await sandbox.exec(["true"], timeout_s=20)).exit_code == 0


async def test_cancelling_an_exec_ends_its_processes(backend: SandboxBackend, spec: Spec) -> None:
    forever = Sleeper()
    async with backend.open(spec()) as sandbox:
        task = asyncio.create_task(
            sandbox.exec(["sh", "-c", f"{forever.command} & {forever.command}"], timeout_s=100)
        )
        await forever.started(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert forever.survivors() == []


async def test_output_is_bounded_while_it_streams(backend: SandboxBackend, spec: Spec) -> None:
    async with backend.open(spec(limits=Limits(output_bytes=1000))) as sandbox:
        result = await sandbox.exec(
            ["sh", "-c", "yes | head -c 30000000; yes | head -c 9000000 >&2"], timeout_s=30
        )
    assert (result.exit_code, len(result.stdout), len(result.stderr)) == (0, 1000, 1000)


async def test_a_fork_bomb_is_bounded_and_the_sandbox_stays_usable(
    backend: SandboxBackend, spec: Spec
) -> None:
    forever = Sleeper()
    async with backend.open(spec(limits=Limits(pids=40))) as sandbox:
        bomb = f"import os, time\nfor _ in range(400): os.posix_spawnp('sleep', {forever.argv!r}, os.environ)"
        result = await sandbox.exec(["python3", "-c", bomb], timeout_s=5)
        assert "BlockingIOError" in result.stderr or result.timed_out, result
        assert len(forever.running()) <= 40
        await sandbox.export()
        assert forever.survivors() == []
        assert (await sandbox.exec(["echo", "fine"], timeout_s=20)).stdout == "fine\n"


async def test_memory_is_bounded(backend: SandboxBackend, spec: Spec) -> None:
    async with backend.open(spec(limits=Limits(memory_mb=200, disk_mb=16))) as sandbox:
        result = await sandbox.exec(
            ["python3", "-c", "x = bytearray(400 * 2**20); print(len(x))"], timeout_s=30
        )
        assert result.exit_code != 0
        assert result.stdout == ""


async def test_the_exec_prefix_runs_commands_from_a_host_process(backend: SandboxBackend, spec: Spec) -> None:
    async with backend.open(spec()) as sandbox:
        prefix = sandbox.exec_prefix({"COLOUR": "red"}, "/tmp")
        process = await asyncio.create_subprocess_exec(
            *prefix, "sh", "-c", "pwd; echo $COLOUR; cat /workspace/a.txt", stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
    assert output == b"/tmp\nred\nhello\n"


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", ""])
async def test_files_outside_the_workspace_are_refused(
    backend: SandboxBackend, spec: Spec, name: str
) -> None:
    with pytest.raises(SetupError, match="relative path"):
        async with backend.open(spec(files={name: b""})):
            pass


async def test_a_closed_sandbox_refuses_commands(backend: SandboxBackend, spec: Spec) -> None:
    async with backend.open(spec()) as sandbox:
        pass
    with pytest.raises(SetupError):
        await sandbox.exec(["true"], timeout_s=20)
