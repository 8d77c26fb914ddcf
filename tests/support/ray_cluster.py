"""Somebody else's Ray cluster: several nodes on this machine, started as `ray start` starts them.
Who has the tests' token (`conftest.py`) may join."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.support.processes import command, descendants

CPUS = 3
"""Of each node, in Ray's count."""
OURS = ("ray::EngineActor", "EngineCore", "ray::TrainerActor", "ray::RolloutWorker")
_SCRIPT = "from ray.scripts.scripts import main; main()"
_STATE = """
import json, ray, sys, time
ray.init(address=sys.argv[1], log_to_driver=False)
patience = time.monotonic() + 120
free = 0
while free < ray.cluster_resources()["CPU"] and time.monotonic() < patience:
    free = ray.available_resources().get("CPU", 0)
    time.sleep(0.1)
print(json.dumps([free, sum(n["Alive"] for n in ray.nodes())]))
"""

_HOLD = """
import ray, sys
from ray.util import placement_group
ray.init(address=sys.argv[1], log_to_driver=False)
assert placement_group([{"CPU": 1}] * int(sys.argv[2])).wait(300)
print("held", flush=True)
sys.stdin.read()
"""


class RayCluster:
    """Its head at `address`; nodes end with the context that made it."""

    def __init__(self, folder: str, stack: ExitStack) -> None:
        self.address = f"127.0.0.1:{_free_port()}"
        self._folder, self._stack = folder, stack
        self._nodes: list[subprocess.Popen[str]] = []
        port = self.address.partition(":")[2]
        self._start(["--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}"])

    def add_node(self, inside: Sequence[str] = ()) -> subprocess.Popen[str]:
        """One node more; `inside` is the argv of what it sees the machine through."""
        return self._start([f"--address={self.address}"], inside)

    def _start(self, how: list[str], inside: Sequence[str] = ()) -> subprocess.Popen[str]:
        common = [f"--num-cpus={CPUS}", "--node-ip-address=127.0.0.1", "--block", "--disable-usage-stats"]
        common += ["--object-store-memory=100000000", "--dashboard-agent-listen-port=0"]
        node = subprocess.Popen(
            [*inside, sys.executable, "-c", _SCRIPT, "start", *how, *common],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=_end_with_the_test,
        )
        self._stack.callback(end, node)
        self._nodes.append(node)
        said = ""
        assert node.stdout is not None
        for line in node.stdout:
            said += line
            if "Ray runtime started" in line:
                return node
        raise AssertionError(said)

    def state(self) -> tuple[float, int]:
        """CPUs that nobody has, once those are all or two minutes have passed, and nodes that are alive."""
        program = [sys.executable, "-c", _STATE, self.address]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        free, alive = json.loads(done.stdout.splitlines()[-1])
        return free, alive

    @contextmanager
    def held(self, cpus: int) -> Iterator[None]:
        """Somebody else has so many CPUs."""
        program = [sys.executable, "-c", _HOLD, self.address, str(cpus)]
        with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield
            holder.communicate("")

    def ours(self) -> list[int]:
        """Processes of a run's parts on any node."""
        pids = [pid for node in self._nodes for pid in descendants(node.pid)]
        return [pid for pid in pids if any(name in command(pid) for name in OURS)]


@contextmanager
def ray_cluster(num_nodes: int) -> Iterator[RayCluster]:
    """Of so many nodes."""
    with (
        # Its sockets lie in the folder: a path of more than about 100 bytes would not fit a unix address.
        tempfile.TemporaryDirectory(prefix="lego-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder,
        ExitStack() as stack,
    ):
        cluster = RayCluster(folder, stack)
        for _ in range(num_nodes - 1):
            cluster.add_node()
        yield cluster


def end(node: subprocess.Popen[Any]) -> None:
    """With all it started; a second time is fine."""
    if node.poll() is None:
        # `ray start` itself ends what it started; what it may stand behind would only leave it.
        for pid in (node.pid, *descendants(node.pid)):
            if _SCRIPT in command(pid):
                os.kill(pid, signal.SIGTERM)
        node.communicate()


def _end_with_the_test() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
