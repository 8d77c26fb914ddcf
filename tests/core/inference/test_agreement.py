"""Table 7 on our own engine: in bf16 a peaky policy shows what routing replay is worth.

The engine runs in bf16, the trainer in fp32 on the same weights. Rounding flips a route now and
then; without replay each flip moves the log-probabilities behind it, and routes shifted by one
position are wrong almost everywhere. In fp32 nothing flips, so replay on and off agree exactly.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lego_core.config import EngineConfig, TrainConfig
from lego_core.inference.ray_engine import start_engine
from lego_core.inference.spec import EngineSpec
from lego_core.training.trainer import Trainer, TrainerSpec
from tests.support.engine_samples import request, sample_many
from tests.support.tiny_model import build_random_model

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]


def shifted(sample):
    """Every row one position late; the first has none."""
    routes = np.full_like(sample.routes, -1)
    routes[1:-1] = sample.routes[:-2]
    return replace(sample, routes=routes)


def measured(model_dir, samples, *, replay=True):
    config = TrainConfig(learning_rate=0, kl_coef=0, routing_replay=replay, micro_batch_tokens=4096)
    return Trainer(TrainerSpec(model_dir=model_dir, config=config, temperature=1.0)).train_step(samples)


async def test_k3_is_far_worse_without_replay_and_worse_still_when_misaligned(ray_session, tmp_path):
    model_dir = build_random_model(tmp_path / "hot", layers=4, init_std=0.25, dtype="bfloat16")
    engine = await start_engine(
        EngineSpec(model_dir=model_dir, config=EngineConfig(dtype="bfloat16", max_model_len=4096))
    )
    samples = await sample_many(engine, [request(f"hot{i}", sampled=400) for i in range(8)])
    await engine.close()
    aligned = measured(model_dir, samples)
    off = measured(model_dir, samples, replay=False)
    misaligned = measured(model_dir, [shifted(s) for s in samples])
    assert off.k3 >= 5 * aligned.k3
    assert misaligned.k3 >= 100 * aligned.k3
    assert aligned.pearson_r > off.pearson_r > misaligned.pearson_r
    assert aligned.routing_coverage == 1.0
    assert aligned.expert_overlap > 0.95 > misaligned.expert_overlap
