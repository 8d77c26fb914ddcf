"""How a confined container is described to a Docker engine.

Owns limits, users, mounts and labels of a sandbox's container. Invariant: no capability is left to anybody
inside, nothing can gain one, process 1 belongs to a user that nobody inside can become or signal, and the
only places that can be written are sized. Calls nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docker.types import Mount as DockerMount

from lego_harness.errors import SetupError
from lego_harness.sandbox import ownership
from lego_harness.sandbox.base import PROXY_SOCKET, WORKSPACE, Limits, SandboxSpec

RUN_LABEL, OWNER_LABEL = "lego.run", "lego.owner"
_AGENT, _ROOT = 1000, 0
_KEEPER = "65534:65534"
"""User of process 1. Without CAP_KILL and CAP_SETUID not even root inside can end it."""
_HOME = "/home/agent"


def agent_user(spec: SandboxSpec) -> str:
    """`uid:gid` of everything that is executed."""
    uid = _ROOT if spec.root else _AGENT
    return f"{uid}:{uid}"


def labels(run: str) -> dict[str, str]:
    """What everything that we make bears: its run and its maker."""
    return {RUN_LABEL: run, OWNER_LABEL: ownership.me()}


def described(
    spec: SandboxSpec, *, runtime: str | None = None, network: str = "none", volumes: Iterable[str] = ()
) -> dict[str, Any]:
    """Keyword arguments of `containers.create`; raises SetupError for limits beyond the machine's memory.

    `volumes` are those that the image declares: left to the engine they would lie on its disk, of any size.
    """
    limits = spec.limits
    _require_room(limits)
    memory = f"{limits.memory_mb + limits.disk_mb}m"  # a tmpfs counts as memory
    uid = _ROOT if spec.root else _AGENT
    room = f"size={limits.disk_mb}m,uid={uid},gid={uid},mode=0755,exec"
    return {
        "entrypoint": ["sleep", "infinity"],
        "command": [],
        "init": True,
        "user": _KEEPER,
        "labels": labels(spec.label),
        **_network(network, runtime),
        **({"runtime": runtime} if runtime else {}),
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "pids_limit": limits.pids,
        "mem_limit": memory,
        "memswap_limit": memory,
        "nano_cpus": int(limits.cpus * 1e9),
        "tmpfs": {
            **dict.fromkeys((path.rstrip("/") for path in volumes), room),
            **{WORKSPACE: room, "/tmp": room.replace("0755", "1777"), _HOME: room},
        },
        "mounts": _mounts(spec) + _hosts(network, runtime),
        "working_dir": WORKSPACE,
        "environment": {
            "HOME": _HOME,
            "USER": "root" if spec.root else "agent",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        },
    }


def _network(network: str, runtime: str | None) -> dict[str, Any]:
    if network.startswith("container:"):
        return {"network_mode": network}
    return {"network_mode": network, "network_disabled": _has_own(network, runtime), "hostname": "sandbox"}


def _has_own(network: str, runtime: str | None) -> bool:
    """Where there is to be no network, the new namespace that the default runtime makes is enough, loopback
    included; to prepare one itself the engine would run itself twice more for each container."""
    return network == "none" and runtime is None


def _hosts(network: str, runtime: str | None) -> list[DockerMount]:
    """Names that the engine leaves out when it does not prepare the network."""
    if not _has_own(network, runtime):
        return []
    return [DockerMount("/etc/hosts", str(Path(__file__).with_name("hosts")), type="bind", read_only=True)]


def _require_room(limits: Limits) -> None:
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    if limits.memory_mb + limits.disk_mb > there:
        raise SetupError(
            f"a sandbox of {limits.memory_mb} MB of memory and {limits.disk_mb} MB of disk: what is written is kept "
            f"in memory, and this machine has {there} MB; lower memory_mb or storage_mb of the task's "
            "[environment], or run it on a larger machine"
        )


def _mounts(spec: SandboxSpec) -> list[DockerMount]:
    mounts = [DockerMount(m.target, str(m.source), type="bind", read_only=True) for m in spec.mounts]
    if spec.proxy_socket is not None:
        mounts.append(DockerMount(PROXY_SOCKET, str(spec.proxy_socket), type="bind"))
    return mounts
