"""The network of an agent's container: closed, proven closed, and not to be opened from inside, even as root."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lego_harness.adapters.inside import FORWARDER
from lego_harness.errors import SetupError
from lego_harness.sandbox import docker_engine, egress
from lego_harness.sandbox.base import PROXY_SOCKET, Mount, Phase, SandboxSpec
from lego_harness.sandbox.bubblewrap import BubblewrapBackend
from lego_harness.sandbox.docker import DockerBackend, DockerSandbox

pytestmark = [pytest.mark.docker, pytest.mark.slow]
Spec = Callable[..., SandboxSpec]
TOOLS = Mount(source=Path("/usr/sbin"), target="/opt/tools")
"""The host's own administration programs, for an agent that brings some along."""
UNDO = r"""
export PATH=$PATH:/opt/tools:/usr/sbin
try() { "$@" >/dev/null 2>&1 && echo "did: $*"; }
try nft flush ruleset
try nft add table inet x
try iptables -F
try ip link add dummy0 type dummy
try ip link set lo down
try ip link add v0 type veth peer name v1
try ip route add default dev lo
try unshare -n true
try unshare -Ur true
try unshare -Urn true
try mount -t tmpfs none /mnt
try mount -o remount,rw /
try mount --bind /tmp /opt
try umount /run/lego/proxy.sock
try nsenter -t 1 -n true
try nsenter -t 1 -m true
try chroot / true
try mknod /tmp/disk b 8 0
try sysctl -w net.ipv4.ip_forward=1
try kill -9 1
python3 - <<'PY'
import socket
for family, kind, what in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_PACKET, socket.SOCK_RAW, 3),
                           (socket.AF_INET6, socket.SOCK_RAW, 58)):
    try:
        socket.socket(family, kind, what)
        print("did: a raw socket of family", family)
    except OSError:
        pass
PY
true"""
REACH = (
    "import socket, sys; print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).recv(9).decode())"
)


@pytest.fixture
def docker() -> DockerBackend:
    return DockerBackend()


@pytest.fixture
def registry() -> Iterator[int]:
    """A service of this machine on every address, such as a package registry; its port."""
    with socket.create_server(("", 0)) as listener:
        loop_end = _serving(listener)
        yield listener.getsockname()[1]
        loop_end()


@pytest.mark.parametrize("root", [False, True], ids=["agent", "root"])
async def test_nothing_that_undoes_a_firewall_works_inside(
    docker: DockerBackend, spec: Spec, root: bool
) -> None:
    async with docker.open(spec(phase=Phase.AGENT, root=root, mounts=(TOOLS,))) as sandbox:
        result = await sandbox.exec(["bash", "-c", UNDO], timeout_s=60)
        assert (result.stdout, result.exit_code) == ("", 0)
        await sandbox.enter(Phase.AGENT)


@pytest.mark.parametrize("way", ["from a thread", "from a container"])
async def test_a_container_on_a_bridge_is_never_handed_to_an_agent(
    docker: DockerBackend, spec: Spec, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways of probing see the same; without privilege the second one is taken."""
    if way == "from a container":
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    async with docker.open(spec(network=True)) as sandbox:
        (one,) = await docker.standing(spec().label)
        state = docker_engine.state(one.name)
        assert state is not None
        with pytest.raises(SetupError, match=r"not proven closed.*tcp .* open"):
            await asyncio.to_thread(egress.prove_closed, one.name, state, spec().label)
        await sandbox.enter(Phase.AGENT)
        names = {other.name for other in await docker.standing(spec().label)}
        (closed,) = names - {one.name}
        state = docker_engine.state(closed)
        assert state is not None
        await asyncio.to_thread(egress.prove_closed, closed, state, spec().label)


async def test_set_up_may_fetch_and_the_agent_behind_it_may_not(
    docker: DockerBackend, spec: Spec, registry: int, label: str
) -> None:
    async with docker.open(spec(network=True, root=True)) as sandbox:
        gateway = await _gateway(sandbox)
        fetch = ["python3", "-c", REACH, gateway, str(registry)]
        assert (await sandbox.exec(fetch, timeout_s=20)).stdout == "a package\n"
        await sandbox.exec(
            ["sh", "-c", "echo got > fetched; ln -s fetched link; echo set > ~/.settings"], timeout_s=20
        )
        tunnel = await asyncio.create_subprocess_exec(*sandbox.exec_prefix(), *_tunnel(gateway, registry))
        await sandbox.enter(Phase.AGENT)
        assert await tunnel.wait() != 0
        result = await sandbox.exec(fetch, timeout_s=20)
        assert (result.exit_code, "unreachable" in result.stderr) == (1, True)
        kept = await sandbox.exec(["sh", "-c", "cat a.txt link ~/.settings"], timeout_s=20)
        assert kept.stdout == "hello\ngot\nset\n"
    assert docker_engine_networks(label) == []


async def test_where_the_network_stays_open_no_agent_phase_begins(
    docker: DockerBackend, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = docker_engine.start
    async with docker.open(spec(network=True)) as sandbox:
        (one,) = await docker.standing(spec().label)
        monkeypatch.setattr(
            docker_engine, "start", lambda name, spec, **_: start(name, spec, network=one.name)
        )
        with pytest.raises(SetupError, match="not proven closed"):
            await sandbox.enter(Phase.AGENT)


async def test_an_agent_phase_with_a_network_is_refused(docker: DockerBackend, spec: Spec) -> None:
    with pytest.raises(SetupError, match="only set-up may have one"):
        async with docker.open(spec(network=True, phase=Phase.AGENT)):
            pass
    with pytest.raises(SetupError, match="no network in any phase; use Docker"):
        async with BubblewrapBackend().open(spec(network=True)):
            pass


async def test_killing_the_forwarder_closes_the_only_way_out(
    docker: DockerBackend, spec: Spec, tmp_path: Path
) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"proxy\n")
        writer.close()
        await writer.wait_closed()

    reach = f"python3 -c '{REACH}' 127.0.0.1 ${{URL##*:}}"
    script = f"{reach}; kill -9 $PPID; while kill -0 $PPID 2>/dev/null; do :; done; {reach} 2>&1 | tail -1; touch /tmp/done"
    path = tmp_path / "proxy.sock"
    async with (
        await asyncio.start_unix_server(answer, path),
        docker.open(spec(phase=Phase.AGENT, proxy_socket=path, mounts=(FORWARDER,), root=True)) as sandbox,
    ):
        forwarder = ["python3", "-I", "-S", FORWARDER.target, PROXY_SOCKET, "/home/agent", "--"]
        command = ["sh", "-c", "{ " + script + "; } > /workspace/said"]
        await sandbox.exec([*forwarder, "env", "URL={port}", *command], timeout_s=30)
        await sandbox.exec(["sh", "-c", "until [ -e /tmp/done ]; do sleep 0.05; done"], timeout_s=30)
        said = (await sandbox.export())["said"].decode()
    assert said.startswith("proxy\n")
    assert "ConnectionRefusedError" in said


def docker_engine_networks(label: str) -> list[str]:
    with docker_engine.client() as client:
        return [network.name for network in client.networks.list(filters={"label": f"lego.run={label}"})]


async def _gateway(sandbox: DockerSandbox) -> str:
    script = (
        "import socket, struct; line = next(l.split() for l in open('/proc/net/route') if l.split()[1] == '00000000');"
        "print(socket.inet_ntoa(struct.pack('<L', int(line[2], 16))))"
    )
    return (await sandbox.exec(["python3", "-c", script], timeout_s=20)).stdout.strip()


def _tunnel(gateway: str, port: int) -> list[str]:
    """A connection of the set-up phase that would stay open."""
    return [
        "python3",
        "-c",
        f"import socket, time; s = socket.create_connection(('{gateway}', {port})); time.sleep(1000)",
    ]


def _serving(listener: socket.socket) -> Callable[[], None]:
    """Answer in a thread until told to stop."""
    import threading

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"a package")

    thread = threading.Thread(target=serve)
    thread.start()

    def stop() -> None:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()

    return stop
