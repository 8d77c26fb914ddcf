"""Engine, trainer and weight sync learn together: the smallest whole loop, without a harness."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from lego_core.batching.advantages import group_advantages
from lego_core.config import EngineConfig, TrainConfig
from lego_core.inference.ray_engine import start_engine
from lego_core.inference.spec import EngineSpec
from lego_core.training.ray_trainer import start_trainer
from lego_core.training.trainer import TrainerSpec
from tests.support.engine_samples import as_sample, request
from tests.support.tiny_model import build_random_model

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

STEPS, ROLLOUTS = 30, 32


def reward(ids):
    """Share of sampled ids in the lower half of the vocabulary: 0.5 for a random policy."""
    return float((np.asarray(ids) < 256).mean())


async def test_the_reward_rises_while_engine_and_trainer_agree(ray_session, tmp_path):
    model_dir = build_random_model(tmp_path / "model", hidden=64)
    config = TrainConfig(learning_rate=1e-2, kl_coef=0.0)
    engine = await start_engine(
        EngineSpec(model_dir=model_dir, config=EngineConfig(dtype="float32", max_model_len=4096))
    )
    trainer = await start_trainer(TrainerSpec(model_dir=model_dir, config=config, temperature=1.0))
    rewards, metrics = [], []
    for step in range(STEPS):
        calls = [request(f"s{step}r{i}", context=8, sampled=48) for i in range(ROLLOUTS)]
        replies = await asyncio.gather(*[engine.generate(c) for c in calls])
        earned = [reward(r.ids) for r in replies]
        advantages = group_advantages(earned, divide_by_std=True)
        samples = [as_sample(c, r, float(a)) for c, r, a in zip(calls, replies, advantages, strict=True)]
        metrics.append(await trainer.train_step(samples, step + 1))
        await trainer.export(tmp_path / "weights.safetensors")
        await engine.publish(tmp_path / "weights.safetensors", step + 1)
        rewards.append(np.mean(earned))
        assert {r.policy_version for r in replies} == {step}
        if rewards[-1] > 0.95:
            break
    trainer.close()
    await engine.close()
    assert rewards[0] == pytest.approx(0.5, abs=0.1)
    assert rewards[-1] > 0.8
    assert min(m.pearson_r for m in metrics) >= 0.999
    assert max(m.mean_abs_dlogp for m in metrics) <= 1e-4
    assert {m.routing_coverage for m in metrics} == {1.0}
