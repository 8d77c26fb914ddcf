"""A trainer's weights in two real vLLM replicas, over gloo: as if read from its file, or named and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, ItemsView, Iterator, Mapping, Sequence
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
import torch
from safetensors.torch import load_file
from torch import Tensor

from lego_core.config import EngineConfig, TrainConfig
from lego_core.inference.broadcast import Broadcaster
from lego_core.inference.ray_engine import RayEngine, start_engine
from lego_core.inference.spec import EngineSpec
from lego_core.together import together
from lego_core.training.ray_trainer import start_trainer
from lego_core.training.trainer import TrainerSpec
from lego_core.weight_broadcast import Meeting, send
from lego_harness.errors import EngineError
from lego_harness.types import Generation
from tests.support.engine_samples import request
from tests.support.local_sender import LocalSender
from tests.support.samples import random_sample
from tests.support.tiny_model import build_random_model

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

LONG_S = 600.0


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_model(tmp_path_factory.mktemp("model"), dtype="bfloat16")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replicas(ray_session: None, model_dir: Path) -> AsyncIterator[Sequence[RayEngine]]:
    config = EngineConfig(dtype="bfloat16", max_model_len=512, kv_cache_gb=0.1, timeout_s=LONG_S)
    spec = EngineSpec(model_dir=model_dir, config=config)
    engines = await together(start_engine(spec, name=f"engine {i} of 2", max_restarts=0) for i in (1, 2))
    yield engines
    await asyncio.gather(*[engine.close() for engine in engines])


async def test_after_a_broadcast_every_replica_answers_as_after_the_file(
    replicas: Sequence[RayEngine], model_dir: Path, tmp_path: Path
) -> None:
    """The trainer computes in fp32 and the engines in bf16, so what they get is rounded on the way. It has two ranks,
    of which the first gathers and sends."""
    config = TrainConfig(learning_rate=1e-2, kl_coef=0.0, num_ranks=2, expert_parallel=2)
    trainer = await start_trainer(
        TrainerSpec(model_dir=model_dir, config=config, temperature=1.0, is_broadcast=True)
    )
    before = await _answers(replicas[0])
    await trainer.train_step([random_sample("a"), random_sample("b", seed=1, advantage=-1.0)])
    await trainer.export(tmp_path / "w")
    broadcaster = Broadcaster(sender=trainer, engines=replicas, dtype="bfloat16", timeout_s=LONG_S)
    await broadcaster.publish(tmp_path / "w", 1)
    broadcast = [await _answers(engine) for engine in replicas]
    for engine in replicas:
        await engine.publish(tmp_path / "w", 2)
        (kept,) = (engine.folder / "weights").iterdir()
        assert kept.samefile(tmp_path / "w")
    read = [await _answers(engine) for engine in replicas]
    trainer.close()
    for i, old in enumerate(before):
        for got, wanted in zip(broadcast, read, strict=True):
            assert (got[i].policy_version, wanted[i].policy_version) == (1, 2)
            assert got[i].ids.tolist() == wanted[i].ids.tolist()
            assert (got[i].logprobs == wanted[i].logprobs).all()
            assert got[i].logprobs.tolist() != old.logprobs.tolist()


async def test_a_replica_that_is_killed_while_it_receives_is_named(
    replicas: Sequence[RayEngine], model_dir: Path, tmp_path: Path
) -> None:
    """All have met, and the other one waits for tensors that cannot come."""
    family = psutil.Process((await replicas[1].health())["pid"]).children(recursive=True)
    core = next(process for process in family if "EngineCore" in "".join(process.cmdline()))
    killer = Killer(Killing(load_file(model_dir / "model.safetensors"), core))
    broadcaster = Broadcaster(sender=killer, engines=replicas, dtype="bfloat16", timeout_s=LONG_S)
    with pytest.raises(EngineError) as caught:
        await broadcaster.publish(tmp_path / "w", 3)
    told = str(caught.value)
    assert told.startswith("broadcasting version 3 failed, and engines may hold a mixture: ")
    assert "receiving version 3 failed: the process of engine 2 of 2 died" in told
    with pytest.raises(EngineError, match="refused: publishing version 3 failed"):
        await replicas[0].generate(request("mixture", sampled=1))


class Killer(LocalSender):
    """Sends without a file, for which the tensors would have to be read."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._tensors = tensors

    async def broadcast(self, meeting: Meeting) -> None:
        assert self._store is not None
        await asyncio.to_thread(send, self._tensors, meeting, self._store, torch.device("cpu"))


class Killing(Mapping[str, Tensor]):
    """Tensors of which the first that is sent is the end of `core`."""

    def __init__(self, tensors: Mapping[str, Tensor], core: psutil.Process) -> None:
        self._tensors, self._core = tensors, core

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def items(self) -> ItemsView[str, Tensor]:
        return self._tensors.items()

    def __getitem__(self, name: str) -> Tensor:
        if self._core.is_running():
            self._core.kill()
            self._core.wait()
        return self._tensors[name]


async def _answers(engine: RayEngine) -> list[Generation]:
    """One after another: what runs beside a call shapes the sums it is computed in."""
    return [await engine.generate(request(f"call{i}", context=150, sampled=40)) for i in range(4)]
