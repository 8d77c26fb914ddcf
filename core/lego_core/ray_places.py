"""The Ray cluster of a run, and where on it the run's processes go.

    no address   a cluster of its own on this machine: a token that only this run knows, random ports, a folder that is
                 removed with it
    an address   a running cluster: joined and left, never stopped. Each process has a CPU, and its GPU, reserved before
                 the first one starts: trainer ranks close together, engines and rollout workers apart

Invariant: whatever happens, a cluster that was joined keeps running and nothing of ours stays on it; what it cannot
do for the run is refused in one line before any process of the run starts. Starts none of these processes itself.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lego_core.config import Recipe
from lego_core.leftovers import MARK
from lego_core.rank_fit import gpu_share
from lego_core.ray_head import while_head_answers
from lego_core.ray_nodes import faults_of_nodes
from lego_harness.errors import InfrastructureError, UsageError
from lego_harness.text import one_line

OBJECT_STORE_BYTES = 512 * 2**20
RESERVE_S = 60
"""How long to wait for other people's processes to give back what they hold."""
LISTENS_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Joining:
    """What a run brings to a running cluster."""

    address: str
    """`HOST:PORT` of the cluster's head; `auto` finds the one of this machine."""
    shared: Path
    """Folder for what processes pass to each other; made here, removed at the end, visible to every node."""
    needed: Sequence[Path]
    """Other files and folders that every node has to see."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """Ray options for each kind of process, and where processes leave things for each other."""

    num_gpus: int
    """That Ray hands out."""
    shared: Path
    """Seen by all processes."""
    scratch: Path | None
    """Short path for sockets; None: each node's own folder for temporary files."""
    ranks: Mapping[str, Any] = field(default_factory=dict[str, Any])
    engines: Mapping[str, Any] = field(default_factory=dict[str, Any])
    workers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    by_node: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """Node → kind of process → how many; empty if there is only one node."""


def own_environment() -> dict[str, str]:
    """For a Ray of one's own, which listens on all interfaces and runs whatever it is sent: it answers only who has the
    token. Ray reads this when it is first imported; before that it has to be in `os.environ`."""
    return {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }


@asynccontextmanager
async def open_ray(recipe: Recipe, scratch: Path, joining: Joining | None) -> AsyncIterator[Places]:
    """A Ray to start the recipe's processes on. Raises UsageError or InfrastructureError."""
    if joining is None:
        with own_ray(scratch) as places:
            async with while_head_answers(_head()):
                yield places
    else:
        async with _joined(recipe, joining) as places, while_head_answers(_head()):
            yield places


def _head() -> str:
    import ray

    return ray.get_runtime_context().gcs_address


def require_cluster(address: str) -> None:
    """Checks that something listens at `address`; raises UsageError or InfrastructureError. Starts no Ray."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise UsageError(
            f"--ray-address got {address!r}, expected HOST:PORT of the cluster's head, as `ray start --head` prints it, "
            "or auto for the cluster of this machine; this machine has to be one of its nodes"
        )
    try:
        socket.create_connection((host, int(port)), LISTENS_S).close()
    except (OSError, OverflowError) as error:
        raise InfrastructureError(
            f"there is no Ray cluster at {address}: {error}; start one with ray start --head, or leave --ray-address "
            "out for a Ray of the run's own"
        ) from None


@contextmanager
def own_ray(scratch: Path) -> Iterator[Places]:
    """A new Ray, so that one that runs for something else is neither used nor touched; see `own_environment`."""
    import ray

    try:
        with _signals_stay_ours():
            ray.init(
                address="local",
                include_dashboard=False,
                log_to_driver=False,
                object_store_memory=OBJECT_STORE_BYTES,
                _node_ip_address="127.0.0.1",
                _temp_dir=str(scratch / "ray"),
            )
    except Exception as error:  # whatever Ray raises
        raise InfrastructureError(f"Ray did not start: {error}; its logs were in {scratch}") from error
    try:
        yield Places(num_gpus=int(ray.cluster_resources().get("GPU", 0)), shared=scratch, scratch=scratch)
    finally:
        ray.shutdown()


@asynccontextmanager
async def _joined(recipe: Recipe, joining: Joining) -> AsyncIterator[Places]:
    import ray

    _join(joining.address)
    groups: dict[str, Any] = {}
    try:
        num_gpus = int(ray.cluster_resources().get("GPU", 0))
        await _reserve(recipe, joining.address, gpu_share(recipe, num_gpus), groups)
        nodes = {kind: _nodes_of(group) for kind, group in groups.items()}
        shutil.rmtree(joining.shared, ignore_errors=True)  # of a run that was killed
        joining.shared.mkdir()
        await faults_of_nodes(
            {node for found in nodes.values() for node in found}, joining.shared, joining.needed
        )
        yield Places(
            num_gpus=num_gpus,
            shared=joining.shared,
            scratch=None,
            **{kind: _options(group) for kind, group in groups.items()},
            by_node=_by_node(nodes),
        )
    finally:
        shutil.rmtree(joining.shared, ignore_errors=True)
        ray.shutdown()  # what was reserved goes with the job


def _join(address: str) -> None:
    import ray

    # Tries, each of which takes Ray up to 42 s; of its own 20 nobody would wait for the end.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "2")
    try:
        with _signals_stay_ours():
            # By the mark a later start finds what a killed one left on this machine.
            marked = {"env_vars": {MARK: os.environ.get(MARK, "")}}
            ray.init(address=address, log_to_driver=False, runtime_env=marked)
    except Exception as error:  # Ray raises what it likes, from ConnectionError to a bare Exception
        causes = [str(e) for e in (error, error.__cause__) if e is not None and str(e)]
        raise InfrastructureError(
            f"the Ray cluster at {address} could not be joined: {one_line('; '.join(causes), limit=600)}; this machine "
            "has to be one of its nodes, with the same versions of Ray and Python"
        ) from error


async def _reserve(recipe: Recipe, address: str, gpus: float, groups: dict[str, Any]) -> None:
    """A bundle for each process, in `groups` by kind."""
    import ray
    from ray.util import placement_group

    on_gpu = {"CPU": 1.0, **({"GPU": gpus} if gpus else {})}
    beside = recipe.eval.engines
    wanted = {
        "ranks": (recipe.train.num_ranks, on_gpu, "PACK"),
        "engines": (recipe.engine.replicas + beside, on_gpu, "SPREAD"),
        "workers": (recipe.rollout.num_workers + beside, {"CPU": 1.0}, "SPREAD"),
    }
    cpus, there = sum(count for count, *_ in wanted.values()), int(ray.cluster_resources().get("CPU", 0))
    asks = (
        f"the run takes {cpus} CPUs of Ray's, one each for {wanted['ranks'][0]} trainer ranks, {wanted['engines'][0]} "
        f"engines and {wanted['workers'][0]} rollout workers"
    )
    if cpus > there:
        raise UsageError(f"{asks}; the cluster at {address} has {there}: lower those, or add nodes")
    for kind, (count, each, strategy) in wanted.items():
        groups[kind] = placement_group([each] * count, strategy=strategy)
        if not await asyncio.to_thread(groups[kind].wait, RESERVE_S):
            free = {key: ray.available_resources().get(key, 0) for key in on_gpu}
            raise InfrastructureError(
                f"{asks}{f', with {gpus:g} GPUs for each of the first two' if gpus else ''}; the cluster at {address} "
                f"did not give those for the {kind} within {RESERVE_S:g} s, {free} are free: others hold the rest; "
                "wait for them, then try again"
            )


def _options(group: Any) -> dict[str, Any]:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    return {"num_cpus": 1, "scheduling_strategy": PlacementGroupSchedulingStrategy(group)}


def _nodes_of(group: Any) -> list[str]:
    from ray.util import placement_group_table

    return list(placement_group_table(group)["bundles_to_node_id"].values())


def _by_node(nodes: Mapping[str, Sequence[str]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for kind, ids in nodes.items():
        for node, count in Counter(ids).items():
            found.setdefault(node, {})[kind] = count
    return found


@contextmanager
def _signals_stay_ours() -> Iterator[None]:
    """On SIGTERM, Ray's core ends the process that started it with SIGABRT: nothing would be cleaned up."""
    ours = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
            signal.siginterrupt(number, False)  # as asyncio has it
