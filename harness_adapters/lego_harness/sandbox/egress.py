"""Proof that a sandbox's network is closed, by trying: no proof, no agent phase.

What rules or settings say is not asked. From inside the sandbox's network namespace we try an address of
nobody's (IPv4 and IPv6), every resolver, and every address of this machine on a port where something is
listening for the length of the probe; the kernel has to refuse each of them at once. Invariant: `prove_closed`
returns only when all were refused.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from lego_harness.errors import SetupError
from lego_harness.sandbox import cgroup, docker_container, egress_probe
from lego_harness.sandbox import docker_engine as engine
from lego_harness.sandbox.docker_engine import State
from lego_harness.text import one_line

Target = tuple[str, str, int]
NOBODY: tuple[Target, ...] = (
    ("tcp", "192.0.2.1", 443),
    ("tcp", "2001:db8::1", 443),
    ("dns", "192.0.2.53", 53),
    ("dns", "127.0.0.11", 53),
)
"""Addresses for documentation, and the resolver that engines embed."""
_NEW_NET = 0x40000000
_LIMIT_S = 60.0


def prove_closed(name: str, state: State, label: str) -> None:
    """Raise SetupError unless every way out of the container's network namespace is refused."""
    with socket.create_server(("", 0), backlog=64) as listener:
        port = listener.getsockname()[1]
        targets = [*NOBODY, *_resolvers(), *(("tcp", address, port) for address in _own_addresses())]
        words = _attempted(name, state, label, targets)
    ways = [f"{kind} {where}:{port} {word}" for (kind, where, port), word in zip(targets, words, strict=True)
            if not word.startswith(egress_probe.REFUSED)]  # fmt: skip
    if ways:
        raise SetupError(
            f"the network of {name} is not proven closed, expected refusals: {'; '.join(ways[:5])}"
        )


def _attempted(name: str, state: State, label: str, targets: Sequence[Target]) -> list[str]:
    if os.geteuid() == 0 and cgroup.is_of(state.pid, state.id):
        return _from_a_thread(state.pid, targets)
    return _from_a_container(name, label, targets)


def _from_a_thread(pid: int, targets: Sequence[Target]) -> list[str]:
    """Enter the namespace with a thread that does nothing else and then ends."""
    found: list[list[str] | OSError] = []

    def enter_and_try() -> None:
        try:
            with Path(f"/proc/{pid}/ns/net").open("rb") as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _NEW_NET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            found.append(egress_probe.attempt(list(targets)))
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=enter_and_try)
    thread.start()
    thread.join()
    (result,) = found or [OSError("the probe ended without a word")]
    if isinstance(result, OSError):
        raise SetupError(f"the network namespace of process {pid} cannot be probed: {result}") from result
    return result


def _from_a_container(name: str, label: str, targets: Sequence[Target]) -> list[str]:
    """The same for whoever may not enter namespaces, or is on another machine than the engine."""
    source = Path(egress_probe.__file__).read_text(encoding="utf-8")
    labels = [f"--label={key}={value}" for key, value in docker_container.labels(label).items()]
    command = [
        *engine.cli(), "run", "--rm", *labels, f"--network=container:{name}", "--cap-drop=ALL", "--read-only",
        "--security-opt=no-new-privileges:true", "--user=65534:65534", "--entrypoint=python3",
        engine.default_image(), "-I", "-S", "-c", source, json.dumps(targets),
    ]  # fmt: skip
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S)
        words = TypeAdapter(list[str]).validate_json(ended.stdout)
    except (OSError, ValidationError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"the network of {name} cannot be probed: {one_line(str(error))}") from error
    if len(words) != len(targets):
        raise SetupError(f"the network of {name} cannot be probed: got {ended.stdout[:200]!r}")
    return words


def _resolvers() -> list[Target]:
    lines = [line.split() for line in _lines("/etc/resolv.conf")]
    named = [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]
    return [("dns", address.partition("%")[0], 53) for address in named]


def _own_addresses() -> list[str]:
    """IPv4 addresses of this machine but loopback, the gateways of its bridges among them."""
    if sys.platform != "linux":
        return []
    lines = [line.split() for line in _lines("/proc/net/fib_trie")]
    pairs = itertools.pairwise(lines)
    found = {here[1] for here, after in pairs if after[:3] == ["/32", "host", "LOCAL"] and len(here) == 2}
    return sorted(address for address in found if not address.startswith("127."))


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
