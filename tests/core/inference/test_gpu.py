"""vLLM on an accelerator: what it samples in bfloat16, its trainer agrees with, under first and later weights, however
they came."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from lego_core.config import EngineConfig, TrainConfig
from lego_core.inference.broadcast import Broadcaster
from lego_core.inference.canary import perturbed_copy
from lego_core.inference.ray_engine import start_engine
from lego_core.inference.spec import EngineSpec
from lego_core.training.ray_trainer import start_trainer
from lego_core.training.trainer import Trainer, TrainerSpec
from tests.support.engine_samples import request, sample_many
from tests.support.tiny_model import build_random_model

pytestmark = [pytest.mark.gpu, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]


async def test_what_vllm_samples_is_what_the_trainer_computes_before_and_after_a_sync(ray_session, tmp_path):
    first = build_random_model(tmp_path / "first", layers=4, dtype="bfloat16")
    later = perturbed_copy(first, tmp_path / "later")
    spec = EngineSpec(model_dir=first, config=EngineConfig(dtype="bfloat16", max_model_len=4096))
    engine = await start_engine(spec)
    before = await sample_many(engine, [request(f"before{i}", sampled=200) for i in range(8)])
    await engine.publish(later / "model.safetensors", 1)
    after = await sample_many(engine, [request(f"after{i}", sampled=200) for i in range(8)])
    await engine.close()
    assert all((sample.versions[sample.mask] == 1).all() for sample in after)
    for folder, sampled in ((first, before), (later, after)):
        samples = [replace(sample, versions=None) for sample in sampled]
        config = TrainConfig(learning_rate=0, kl_coef=0, micro_batch_tokens=4096)
        told = Trainer(TrainerSpec(model_dir=folder, config=config, temperature=1.0)).train_step(samples)
        assert told.pearson_r >= 0.999
        assert told.routing_coverage == 1.0
        assert told.expert_overlap >= 0.95


@pytest.mark.skipif(
    torch.cuda.device_count() < 2, reason="needs two accelerators: NCCL takes one rank on each"
)
async def test_weights_broadcast_over_nccl_are_those_of_the_file(ray_session, tmp_path):
    model_dir = build_random_model(tmp_path / "model", dtype="bfloat16")
    spec = TrainerSpec(model_dir=model_dir, config=TrainConfig(), temperature=1.0, is_broadcast=True)
    trainer = await start_trainer(spec, num_gpus=1)
    config = EngineConfig(dtype="bfloat16", max_model_len=4096)
    engine = await start_engine(EngineSpec(model_dir=model_dir, config=config), num_gpus=1)
    later = perturbed_copy(model_dir, tmp_path / "later") / "model.safetensors"
    await engine.publish(later, 1)  # so that what is broadcast is news
    await trainer.export(tmp_path / "w")
    broadcaster = Broadcaster(sender=trainer, engines=[engine], dtype="bfloat16", timeout_s=120.0)
    await broadcaster.publish(tmp_path / "w", 2)
    broadcast = await engine.generate(request("a", sampled=40))
    await engine.publish(tmp_path / "w", 3)
    read = await engine.generate(request("a", sampled=40))
    await engine.close()
    trainer.close()
    assert (broadcast.policy_version, read.policy_version) == (2, 3)
    assert broadcast.ids.tolist() == read.ids.tolist()
    assert (broadcast.logprobs == read.logprobs).all()
