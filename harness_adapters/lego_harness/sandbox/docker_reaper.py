"""What sandboxes stand in a Docker engine, and the end of those whose makers have ended.

Invariant: only containers and networks that bear our labels are looked at, and only those whose owner has
surely ended are removed. An owner on another machine, behind an engine that several share, counts as alive.
"""

from __future__ import annotations

from typing import Any

from docker.errors import NotFound

from lego_harness.errors import SetupError
from lego_harness.sandbox import docker_engine as engine
from lego_harness.sandbox import ownership
from lego_harness.sandbox.base import Standing
from lego_harness.sandbox.docker_container import OWNER_LABEL, RUN_LABEL


def standing(label: str | None = None) -> list[Standing]:
    """Every sandbox of a run, or of all runs. Raises SetupError."""
    wanted = RUN_LABEL if label is None else f"{RUN_LABEL}={label}"
    try:
        with engine.client() as client:
            listed = client.api.containers(all=True, filters={"label": wanted})
    except engine.FAULTS as error:
        raise SetupError(f"containers cannot be listed: {engine.last_line(str(error).encode())}") from error
    return [_standing(container) for container in listed]


def reap(label: str | None = None) -> int:
    """Remove the containers whose owner has ended; how many there were. Raises SetupError."""
    left = [one.name for one in standing(label) if one.is_orphan]
    for name in left:
        engine.remove(name, to_the_bone=True)
    _reap_networks(label)
    return len(left)


def _reap_networks(label: str | None) -> None:
    wanted = RUN_LABEL if label is None else f"{RUN_LABEL}={label}"
    try:
        with engine.client() as client:
            for network in client.networks.list(filters={"label": wanted}):
                if _is_orphan(network.attrs["Labels"]):
                    _remove_network(network)
    except engine.FAULTS as error:
        raise SetupError(f"networks cannot be removed: {engine.last_line(str(error).encode())}") from error


def _remove_network(network: Any) -> None:
    try:
        network.remove()
    except NotFound:
        return


def _standing(container: dict[str, Any]) -> Standing:
    labels = container["Labels"]
    return Standing(
        backend="docker",
        label=labels.get(RUN_LABEL, ""),
        name=container["Names"][0].lstrip("/") if container.get("Names") else container["Id"],
        is_orphan=_is_orphan(labels),
        created=float(container["Created"]),
    )


def _is_orphan(labels: dict[str, str]) -> bool:
    owner = labels.get(OWNER_LABEL, "")
    if not engine.host().startswith("unix://") and not ownership.is_of_this_boot(owner):
        return False
    return ownership.is_gone(owner)
