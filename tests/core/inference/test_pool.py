"""Several engines behave as one, and none of them may hold other weights than the trainer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lego_core.inference.pool import EnginePool, engine_of
from lego_core.inference.probe import ProbedEngines
from lego_core.types import Sample
from lego_harness.errors import EngineError, EngineUnavailable
from lego_harness.types import GenerateRequest, Generation
from tests.support.engine_samples import request


@dataclass
class Replica:
    """Its log-probabilities are a function of the weights it was given, which are a number in a file."""

    name: str
    weights: float = 0.0
    version: int = 0
    calls: list[str] = field(default_factory=list)
    is_deaf: bool = False
    """Says that it took weights, and did not."""
    is_slow_to_count: bool = False
    is_starting: bool = False

    async def generate(self, request: GenerateRequest) -> Generation:
        self.calls.append(request.request_id)
        ids = np.arange(request.sampling.max_tokens, dtype=np.int32)
        return Generation(
            ids=ids,
            logprobs=np.full(len(ids), -self.weights, np.float32),
            routes=np.zeros((len(request.context_ids) + len(ids) - 1, 1, 1), np.int8),
            finish_reason="length",
            policy_version=self.version,
        )

    async def publish(self, weights: Path, version: int) -> None:
        if not self.is_deaf:
            self.weights = float(weights.read_text())
        if not self.is_slow_to_count:
            self.version = version

    async def health(self) -> dict[str, float]:
        if self.is_starting:
            raise EngineUnavailable("it is starting again")
        return {"busy_s": 10.0 * int(self.name[-1]), "pid": 100 + int(self.name[-1])}


class Trainer:
    """Scores by the weights it exported last."""

    def __init__(self, weights: float) -> None:
        self.weights = weights

    async def score(self, sample: Sample) -> NDArray[np.float32]:
        assert sample.routes is not None
        assert len(sample.routes) == len(sample.ids)
        assert (sample.routes[-1] == -1).all()
        return np.full(int(sample.mask.sum()), -self.weights, np.float32)


def probed(pool: EnginePool, trainer: Trainer, dtype: str = "float32") -> ProbedEngines:
    return ProbedEngines(pool=pool, scorer=trainer, vocab=100, dtype=dtype, temperature=1.0)


def pool_of(count: int) -> tuple[EnginePool, list[Replica]]:
    replicas = [Replica(f"engine {i + 1}") for i in range(count)]
    return EnginePool(engines=replicas), replicas


async def test_all_calls_of_a_rollout_go_to_one_engine_and_rollouts_to_all() -> None:
    pool, replicas = pool_of(3)
    for rollout in range(60):
        for call in range(3):
            await pool.generate(request(f"s00001.g{rollout // 8:02d}.r{rollout % 8}.a{call}.t{call}"))
    homes = {name.partition(".a")[0]: replica.name for replica in replicas for name in replica.calls}
    assert sum(len(replica.calls) for replica in replicas) == 180
    for replica in replicas:
        assert all(homes[name.partition(".a")[0]] == replica.name for name in replica.calls)
    assert min(Counter(homes.values()).values()) > 10


def test_a_call_that_is_asked_again_goes_to_the_same_engine() -> None:
    """A retry has `.r1` behind its name, a segment behind a weight sync `.s1`."""
    first = engine_of("s00001.g00.r0~1.a3.t2", 8)
    assert engine_of("s00001.g00.r0~1.a3.t2.r1", 8) == engine_of("s00001.g00.r0~1.a3.t2.s1", 8) == first


async def test_published_weights_reach_every_engine_and_busy_time_is_their_mean(tmp_path: Path) -> None:
    pool, replicas = pool_of(3)
    (tmp_path / "w").write_text("2.5")
    await probed(pool, Trainer(2.5)).publish(tmp_path / "w", 4)
    assert [(replica.weights, replica.version) for replica in replicas] == [(2.5, 4)] * 3
    assert await pool.busy_s() == 20.0


async def test_an_engine_that_is_starting_again_has_no_process_and_no_busy_time_yet() -> None:
    pool, replicas = pool_of(2)
    assert await probed(pool, Trainer(1.0)).pids() == {"engine 1": 101, "engine 2": 102}
    replicas[1].is_starting = True
    assert await probed(pool, Trainer(1.0)).pids() == {"engine 1": 101}
    assert await pool.busy_s() == 5.0


async def test_an_engine_that_did_not_take_the_weights_is_named_with_the_distance(tmp_path: Path) -> None:
    pool, replicas = pool_of(3)
    replicas[1].is_deaf = True
    (tmp_path / "w").write_text("0.5")
    with pytest.raises(EngineError, match=r"engine 2 answered a probe of version 1 as version 1, 0\.5 away"):
        await probed(pool, Trainer(0.5)).publish(tmp_path / "w", 1)


async def test_an_engine_that_answers_as_an_older_version_is_named(tmp_path: Path) -> None:
    pool, replicas = pool_of(2)
    replicas[0].is_slow_to_count = True
    (tmp_path / "w").write_text("0.5")
    with pytest.raises(EngineError, match="engine 1 answered a probe of version 7 as version 0"):
        await probed(pool, Trainer(0.5)).publish(tmp_path / "w", 7)


async def test_rounding_of_bfloat16_is_no_failure_and_not_a_number_is_one(tmp_path: Path) -> None:
    pool, _ = pool_of(1)
    (tmp_path / "w").write_text("0.5")
    await probed(pool, Trainer(0.6), "bfloat16").publish(tmp_path / "w", 1)
    with pytest.raises(EngineError, match=r"expected at most 0\.001"):
        await probed(pool, Trainer(0.6)).publish(tmp_path / "w", 2)
    with pytest.raises(EngineError, match="nan away"):
        await probed(pool, Trainer(float("nan")), "bfloat16").publish(tmp_path / "w", 3)
