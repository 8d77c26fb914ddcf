"""What code inside a sandbox tries, and does not get."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lego_harness.errors import SetupError
from lego_harness.sandbox.base import PROXY_SOCKET, Mount, Phase, SandboxBackend, SandboxSpec
from tests.support.sandboxes import backend_called

Spec = Callable[..., SandboxSpec]
REPOSITORY = Path(__file__).resolve().parents[3]
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2)"
SPEAK = (
    "import socket; s = socket.socket(socket.AF_UNIX); s.connect('" + PROXY_SOCKET + "'); "
    "s.sendall(b'ping'); print(s.recv(9).decode())"
)


@pytest.mark.parametrize("phase", list(Phase))
async def test_no_phase_reaches_the_network(backend: SandboxBackend, spec: Spec, phase: Phase) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        async with backend.open(spec(phase=phase)) as sandbox:
            for address in ("127.0.0.1", "192.0.2.1", "::1", "2001:db8::1", "example.org"):
                result = await sandbox.exec(["python3", "-c", CONNECT, address, port], timeout_s=20)
                assert result.exit_code == 1, address
                assert "timed out" not in result.stderr, address
            script = "import socket; print(*(name for _, name in socket.if_nameindex()))"
            interfaces = await sandbox.exec(["python3", "-c", script], timeout_s=20)
    assert set(interfaces.stdout.split()) <= {"lo", "sit0", "tunl0", "ip6tnl0"}


async def test_the_hosts_home_and_repository_are_not_there(
    backend: SandboxBackend, spec: Spec, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("x")
    hidden = [
        tmp_path / "secret",
        REPOSITORY,
        Path.home() / ".cache",
        Path("/etc/shadow"),
        Path("/proc/1/root/root"),
    ]
    script = f"import os; print([p for p in {[str(p) for p in hidden]} if os.access(p, os.R_OK)])"
    async with backend.open(spec()) as sandbox:
        result = await sandbox.exec(["python3", "-c", script], timeout_s=20)
    assert result.stdout == "[]\n"


@pytest.mark.skipif(sys.base_prefix.startswith("/usr"), reason="this Python's packages are the system's own")
async def test_packages_of_the_hosts_other_pythons_are_not_there(spec: Spec) -> None:
    script = "import pathlib; print([p for d in pathlib.Path('/usr').glob('lib/python3*/*-packages') for p in d.iterdir()])"
    async with backend_called("bubblewrap").open(spec()) as sandbox:
        result = await sandbox.exec(["python3", "-c", script], timeout_s=60)
    assert result.stdout == "[]\n", result.stderr


async def test_host_paths_cannot_be_written(backend: SandboxBackend, spec: Spec, tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o777)  # noqa: PTH101 a pathlib call counts as blocking
    mount = Mount(source=tmp_path, target="/opt/shown")
    targets = "/usr/x /usr/bin/x /etc/x /etc/passwd /x /opt/shown/x /proc/sys/kernel/core_pattern /dev/x"
    async with backend.open(spec(mounts=(mount,))) as sandbox:
        script = f"for f in {targets}; do (echo 1 >> $f) 2>/dev/null && echo wrote $f; done; true"
        result = await sandbox.exec(["bash", "-c", script], timeout_s=20)
    assert result.stdout == ""
    assert os.listdir(tmp_path) == []  # noqa: PTH208 likewise


async def test_the_agent_has_no_privilege_and_cannot_get_any(backend: SandboxBackend, spec: Spec) -> None:
    script = """
    grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs)' /proc/self/status | cut -f2 | sort -u
    [ $(id -u) != 0 ] || echo root
    unshare -Ur true 2>/dev/null && echo user namespace
    unshare -n true 2>/dev/null && echo network namespace
    mount -t tmpfs none /mnt 2>/dev/null && echo mount
    kill -9 1 2>/dev/null && echo killed the keeper
    true"""
    async with backend.open(spec()) as sandbox:
        result = await sandbox.exec(["bash", "-c", script], timeout_s=20)
    assert result.stdout == "0000000000000000\n1\n"


async def test_new_namespaces_are_refused_however_they_are_asked_for(
    backend: SandboxBackend, spec: Spec
) -> None:
    script = """
import ctypes, os, platform
libc, flags = ctypes.CDLL(None, use_errno=True), 0x10000000 | 17
clone, clone3, io_uring = (56 if platform.machine() == "x86_64" else 220), 435, 425
print(libc.syscall(clone, flags, 0, 0, 0, 0), libc.syscall(clone3, 0, 0))
"""
    async with backend.open(spec()) as sandbox:
        result = await sandbox.exec(["python3", "-c", script], timeout_s=20)
    assert result.stdout == "-1 -1\n"


async def test_the_proxy_is_reached_in_the_agent_phase_only(
    backend: SandboxBackend, spec: Spec, tmp_path: Path
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"pong" if await reader.read(4) == b"ping" else b"what")
        writer.close()
        await writer.wait_closed()

    path = tmp_path / "proxy.sock"
    async with await asyncio.start_unix_server(answer, path):
        async with backend.open(spec(phase=Phase.AGENT, proxy_socket=path)) as sandbox:
            result = await sandbox.exec(["python3", "-c", SPEAK], timeout_s=20)
            assert result.stdout == "pong\n", result.stderr
        for phase in (Phase.SETUP, Phase.GRADE):
            with pytest.raises(SetupError, match="only the agent phase"):
                async with backend.open(spec(phase=phase, proxy_socket=path)):
                    pass
    async with backend.open(spec(phase=Phase.GRADE)) as sandbox:
        assert (await sandbox.exec(["test", "-e", PROXY_SOCKET], timeout_s=20)).exit_code == 1
