"""Routing replay with real vLLM beyond Qwen3: a Mixtral whose cache is too small, and Qwen3.5's hybrid layers.

What an engine sampled, how it was preempted and which weights it was sent, the trainer recomputes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lego_core.config import EngineConfig, TrainConfig
from lego_core.inference.ray_engine import start_engine
from lego_core.inference.spec import EngineSpec
from lego_core.training.trainer import Trainer, TrainerSpec
from lego_core.weight_files import ChangesWriter, write_weights
from tests.support.engine_samples import request, sample_many
from tests.support.own_ray import own_ray
from tests.support.tiny_model import build_random_hybrid, build_random_mixtral

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]
STUBS = Path(__file__).parents[2] / "support" / "stubs"


@pytest.fixture(scope="module")
def ray_session() -> Iterator[None]:
    """As everywhere; vLLM finds a torchvision."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(STUBS)]))
        with own_ray():
            yield


def measured(model_dir, samples, *, replay=True):
    config = TrainConfig(learning_rate=0, kl_coef=0, routing_replay=replay)
    return Trainer(TrainerSpec(model_dir=model_dir, config=config, temperature=1.0)).train_step(samples)


async def test_a_mixtral_agrees_also_where_calls_were_preempted(ray_session, tmp_path):
    """A token takes 1 KiB here: the cache holds 1,200, the calls together need 1,800 and begin all at once."""
    model_dir = build_random_mixtral(tmp_path / "mixtral")
    config = EngineConfig(dtype="float32", max_model_len=512, kv_cache_gb=1200 / 2**20)
    engine = await start_engine(EngineSpec(model_dir=model_dir, config=config))
    samples = await sample_many(engine, [request(f"mixtral{i}", sampled=250) for i in range(6)])
    await engine.close()
    metrics = measured(model_dir, samples)
    assert metrics.trained_tokens == 6 * 250
    assert metrics.routing_coverage == 1.0
    assert metrics.expert_overlap > 0.999
    assert metrics.mean_abs_dlogp <= 1e-4


async def test_a_hybrid_in_bfloat16_agrees_by_its_routes_and_by_what_changed(ray_session, tmp_path):
    """bfloat16 is all that vLLM's gated delta rule knows on a CPU: rounding flips routes, and replay undoes it."""
    model_dir = build_random_hybrid(tmp_path / "hybrid", head=64)
    engine = await start_engine(EngineSpec(model_dir=model_dir, config=EngineConfig(max_model_len=512)))
    samples = await sample_many(engine, [request(f"hybrid{i}", sampled=150) for i in range(6)])
    aligned, off = measured(model_dir, samples), measured(model_dir, samples, replay=False)
    late = measured(model_dir, [replace(s, routes=shifted(s.routes)) for s in samples])
    assert aligned.routing_coverage == 1.0
    assert off.k3 >= 3 * aligned.k3
    assert late.k3 >= 100 * aligned.k3
    assert aligned.pearson_r > off.pearson_r > late.pearson_r
    answers = [await published(engine, model_dir, write, tmp_path) for write in writers()]
    await engine.close()
    assert answers[0] == answers[1]


def shifted(routes):
    """Every row one position late; the first has none."""
    late = np.full_like(routes, -1)
    late[1:-1] = routes[:-2]
    return late


def writers():
    """All weights in the trainer's float32; what changed in the engine's bfloat16."""
    return write_weights, ChangesWriter(torch.bfloat16).write


async def published(engine, model_dir, write, tmp_path):
    """What the engine says after two updates."""
    tensors = load_file(model_dir / "model.safetensors")
    for version in (1, 2):
        noise = torch.Generator().manual_seed(version)
        tensors = {n: t + 1e-3 * torch.randn(t.shape, generator=noise) for n, t in tensors.items()}
        write(tensors, tmp_path / "weights")
        await engine.publish(tmp_path / "weights", version)
    reply = await engine.generate(request("published", sampled=60))
    return reply.policy_version, reply.ids.tolist(), reply.logprobs.tolist(), reply.routes.tolist()
