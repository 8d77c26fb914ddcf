"""Who gets which GPU, decided before anything is started. The GPUs are counted and not there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lego_core import cluster
from lego_core.cluster import open_cluster
from lego_core.launch import main
from lego_core.rank_fit import gpu_share
from lego_core.ray_places import Places
from lego_harness.errors import EngineError, UsageError
from tests.support.runs import recipe


def _recipe(ranks: int, replicas: int, evaluation: int) -> Any:
    return recipe(train={"num_ranks": ranks}, engine={"replicas": replicas}, eval={"engines": evaluation})


@pytest.mark.parametrize(
    ("wanted", "num_gpus", "share"),
    [
        ((2, 3, 1), 0, 0.0),  # all on the CPU
        ((1, 1, 0), 1, 0.5),  # one for all
        ((1, 1, 1), 1, 0.3333),
        ((1, 1, 0), 2, 1.0),
        ((2, 3, 1), 6, 1.0),
        ((2, 3, 1), 8, 1.0),
    ],
)
def test_each_rank_and_each_engine_has_a_gpu_of_its_own_or_all_share_the_only_one(
    wanted: tuple[int, int, int], num_gpus: int, share: float
) -> None:
    assert gpu_share(_recipe(*wanted), num_gpus) == share


@pytest.mark.parametrize(("wanted", "num_gpus"), [((2, 3, 1), 5), ((1, 2, 0), 2), ((2, 1, 0), 1)])
def test_too_few_gpus_are_refused_with_the_count(wanted: tuple[int, int, int], num_gpus: int) -> None:
    with pytest.raises(UsageError, match=f"take {sum(wanted)} GPUs, one each, and {num_gpus} can be used"):
        gpu_share(_recipe(*wanted), num_gpus)


def test_a_broadcast_between_processes_that_share_a_gpu_is_refused() -> None:
    """NCCL takes one rank on a device; on CPUs gloo takes any number."""
    wanted = recipe(engine={"weight_transfer": "broadcast"})
    assert (gpu_share(wanted, 0), gpu_share(wanted, 2)) == (0.0, 1.0)
    with pytest.raises(
        UsageError, match=r'NCCL, which cannot have two processes on one GPU.*set it to "file"'
    ):
        gpu_share(wanted, 1)


@pytest.mark.xdist_group("launches")  # see test_leftovers.py
def test_a_run_without_enough_gpus_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lego_core.rank_fit.DRIVER", tmp_path / "gpus")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("0", "1"):
        (tmp_path / "gpus" / name).mkdir(parents=True)
    file = tmp_path / "recipe.toml"
    file.write_text(f'[run]\nruns_dir = "{tmp_path / "runs"}"\n[engine]\nreplicas = 3\n')
    assert main(["--recipe", str(file)]) == 2
    assert "take 4 GPUs, one each, and 2 can be used here" in capfd.readouterr().err
    assert not (tmp_path / "runs").exists()


async def test_what_ray_is_asked_for_is_what_was_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And an engine is told how many publishes a call may live through."""
    asked: list[tuple[str, float]] = []

    @asynccontextmanager
    async def six_gpus(*_: Any) -> AsyncIterator[Places]:
        yield Places(num_gpus=6, shared=tmp_path, scratch=tmp_path)

    async def start_trainer(_: Any, *, num_gpus: float, **__: Any) -> None:
        asked.append(("the trainer", num_gpus))
        raise EngineError("enough")

    async def start_engine(_: Any, *, name: str, num_gpus: float, max_cuts: int, **__: Any) -> None:
        assert max_cuts == 3
        asked.append((name, num_gpus))
        raise EngineError("enough")

    monkeypatch.setattr(cluster, "open_ray", six_gpus)
    monkeypatch.setattr(cluster, "start_trainer", start_trainer)
    monkeypatch.setattr(cluster, "start_engine", start_engine)
    wanted = recipe(
        train={"num_ranks": 2}, engine={"replicas": 2}, eval={"engines": 1}, rollout={"max_staleness": 3}
    )
    with pytest.raises(EngineError, match="enough"):
        async with open_cluster(wanted, tmp_path, engine_kind="vllm", label="", scratch=tmp_path):
            pass
    names = ["the trainer", "engine 1 of 2", "engine 2 of 2", "the evaluation engine"]
    assert asked == [(name, 1.0) for name in names]
