"""A run on the nodes of a cluster that is somebody else's: two of Ray's nodes, on one machine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lego_core import ray_places
from lego_core.ray_places import Joining, Places, open_ray
from lego_core.store import RunReader
from lego_harness.errors import InfrastructureError, UsageError
from tests.support.processes import Watch
from tests.support.ray_cluster import CPUS, RayCluster, end, ray_cluster
from tests.support.runs import recipe
from tests.support.small_run import SMALL, lego, show

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

QUICKSTART = Path(__file__).parents[2] / "core" / "recipes" / "quickstart.toml"
ON_BOTH = {
    "train.num_ranks": 2,
    "rollout.num_workers": 2,
    "rollout.max_staleness": 1,
    "rollout.groups_per_step": 2,
    "rollout.group_size": 4,
    "harness.name": "mini-swe-agent",
    "sandbox.backend": "bubblewrap",
    "eval.num_tasks": 2,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with ray_cluster(2) as cluster:
        yield cluster


@asynccontextmanager
async def places(
    cluster: RayCluster, folder: Path, *, ranks: int, replicas: int, workers: int
) -> AsyncIterator[Places]:
    wanted = recipe(
        train={"num_ranks": ranks}, engine={"replicas": replicas}, rollout={"num_workers": workers}
    )
    joining = Joining(address=cluster.address, shared=folder / "exchange", needed=[])
    async with open_ray(wanted, folder, joining) as found:
        yield found


async def test_ranks_stand_together_and_engines_and_workers_apart(
    cluster: RayCluster, tmp_path: Path
) -> None:
    async with places(cluster, tmp_path, ranks=2, replicas=2, workers=2) as found:
        nodes = list(found.by_node.values())
        assert found.shared.is_dir()
    assert sum((Counter(node) for node in nodes), Counter()) == {"ranks": 2, "engines": 2, "workers": 2}
    assert sorted(node.get("ranks", 0) for node in nodes) == [0, 2]
    assert [node["engines"] for node in nodes] == [1, 1]
    assert cluster.state() == (2 * CPUS, 2)
    assert not found.shared.exists()


async def test_what_the_cluster_has_not_is_refused_and_what_others_hold_is_waited_for(
    cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"takes 7 CPUs of Ray's, .* has 6: lower those, or add nodes"):
        async with places(cluster, tmp_path, ranks=1, replicas=2, workers=4):
            pass
    monkeypatch.setattr(ray_places, "RESERVE_S", 1)
    with (
        cluster.held(2),
        pytest.raises(InfrastructureError, match=r"the workers within 1 s.*others hold the rest"),
    ):
        async with places(cluster, tmp_path, ranks=1, replicas=1, workers=4):
            pass
    assert cluster.state() == (2 * CPUS, 2)


async def test_a_node_that_does_not_see_the_run_directory_is_named(
    cluster: RayCluster, tmp_path: Path
) -> None:
    elsewhere = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", str(tmp_path)]
    blind = cluster.add_node(elsewhere)
    try:
        with pytest.raises(
            InfrastructureError, match=r"^node \S+ \(\w{8}\) .* does not see the run directory"
        ):
            async with places(cluster, tmp_path, ranks=1, replicas=1, workers=7):
                pass
    finally:
        end(blind)


@pytest.fixture(scope="module")
def finished(cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    sets = [word for key, value in {**SMALL, **ON_BOTH}.items() for word in ("--set", f"{key}={value}")]
    done = lego("train", str(QUICKSTART), "--ray-address", cluster.address, *sets, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def shown(finished: Path) -> dict[str, Any]:
    return show(finished)


def test_a_run_uses_both_nodes_and_learns_as_on_one(shown: dict[str, Any]) -> None:
    reader = RunReader(Path(shown["run"]))
    (placed,) = [event.fields["nodes"] for event in reader.events() if event.kind == "placed"]
    assert len(placed) == 2
    assert sum((Counter(node) for node in placed.values()), Counter()) == {
        "ranks": 2,
        "engines": 1,
        "workers": 2,
    }
    assert [step["policy_version"] for step in shown["steps"]] == [1, 2]
    for step in reader.steps():
        assert step.sampled == step.trained + sum(step.masked.values())
        assert step.routing_coverage in (1.0, None) or not step.trained


def test_the_cluster_runs_on_and_nothing_of_the_run_is_left(
    cluster: RayCluster, shown: dict[str, Any]
) -> None:
    assert Watch(cluster.ours()).survivors(within_s=120) == []
    assert cluster.state() == (2 * CPUS, 2)
    assert not (Path(shown["run"]) / "exchange").exists()
    assert json.loads((Path(shown["run"]) / "run.json").read_text())["format"] == 1
