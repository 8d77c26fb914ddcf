"""The trainer in its own process fails like a trainer, not like Ray."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from lego_core.config import TrainConfig
from lego_core.errors import CheckpointError, TrainingError
from lego_core.inference.canary import reference_logprobs
from lego_core.training.ray_trainer import start_trainer
from lego_core.training.trainer import Trainer, TrainerSpec
from lego_harness.errors import UsageError
from tests.support.samples import random_sample
from tests.support.tiny_model import build_random_model

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]


def spec(model_dir):
    return TrainerSpec(model_dir=model_dir, config=TrainConfig(), temperature=1.0)


async def test_steps_exports_and_checkpoints_cross_the_process_border(ray_session, tmp_path):
    trainer = await start_trainer(spec(build_random_model(tmp_path / "model", hidden=32)))
    metrics = await trainer.train_step([random_sample("a"), random_sample("b", seed=1, advantage=-1.0)])
    assert metrics.trained_tokens > 0
    await trainer.export(tmp_path / "w.safetensors")
    assert (tmp_path / "w.safetensors").stat().st_size > 0
    await trainer.save_checkpoint(tmp_path / "c", {"step": 1})
    assert await trainer.load_checkpoint(tmp_path / "c") == {"step": 1}
    with pytest.raises(TrainingError, match=r"^an empty batch was given"):
        await trainer.train_step([])
    with pytest.raises(CheckpointError, match=r"^checkpoint .*nowhere cannot be read"):
        await trainer.load_checkpoint(tmp_path / "nowhere")
    trainer.close()


async def test_a_model_that_does_not_load_is_a_usage_error(ray_session, tmp_path):
    with pytest.raises(UsageError, match=f"^model {tmp_path}: transformers cannot load it"):
        await start_trainer(spec(tmp_path))


async def test_a_killed_trainer_is_one_clear_line(ray_session, tmp_path):
    trainer = await start_trainer(spec(build_random_model(tmp_path / "model", hidden=32)))
    samples = [random_sample(f"r{i}", 2000, seed=i) for i in range(16)]
    step = asyncio.create_task(trainer.train_step(samples))
    await asyncio.sleep(0)
    os.kill(trainer.pid, signal.SIGKILL)
    with pytest.raises(TrainingError, match=r"^training step 1 failed: the trainer process died; resume"):
        await asyncio.wait_for(step, 120)


async def test_a_trainer_that_does_not_answer_in_time_is_an_error_naming_the_limit(ray_session, tmp_path):
    trainer = await start_trainer(spec(build_random_model(tmp_path / "model", hidden=32)))
    hasty = replace(trainer, timeout_s=0.05)
    samples = [random_sample(f"r{i}", 2000, seed=i) for i in range(16)]
    with pytest.raises(TrainingError, match=r"^training step 7 got no answer .* train\.timeout_s = 0\.05 s"):
        await hasty.train_step(samples, 7)
    trainer.close()


async def test_a_probe_is_scored_as_the_weights_at_hand_would(ray_session, tmp_path):
    """What the log-probability probe of a weight sync compares with."""
    model = build_random_model(tmp_path / "model", hidden=32)
    trainer = await start_trainer(spec(model))
    sample = replace(random_sample("probe", 40, routed=False), mask=np.arange(40) >= 10)
    scored = await trainer.score(sample)
    assert np.abs(scored - reference_logprobs(model, sample.ids[:10], sample.ids[10:])).max() < 1e-4
    trainer.close()


async def test_ranks_answer_as_one_trainer_and_a_dead_one_ends_the_call(ray_session, tmp_path):
    model_dir = build_random_model(tmp_path / "model", hidden=32)
    config = TrainConfig(num_ranks=2, expert_parallel=2, packing=True)
    ranks = await start_trainer(replace(spec(model_dir), config=config))
    samples = [random_sample("a"), random_sample("b", seed=1, advantage=-1.0), random_sample("c", 60)]
    alone = Trainer(spec(model_dir))
    many, one = await ranks.train_step(samples), alone.train_step(samples)
    assert many.loss == pytest.approx(one.loss, abs=1e-6)
    assert many.grad_norm == pytest.approx(one.grad_norm, rel=1e-4)
    assert await ranks.score(samples[2]) == pytest.approx(alone.score(samples[2]), abs=1e-5)
    await ranks.save_checkpoint(tmp_path / "c", {"step": 1})
    assert alone.load_checkpoint(tmp_path / "c") == {"step": 1}
    with pytest.raises(CheckpointError, match=r"^checkpoint .* exists already"):
        await ranks.save_checkpoint(tmp_path / "c", {"step": 1})
    with pytest.raises(TrainingError, match=r"^an empty batch was given"):
        await ranks.train_step([])
    os.kill(ranks.pid, signal.SIGKILL)
    with pytest.raises(TrainingError, match="the trainer process died; resume"):
        await asyncio.wait_for(ranks.train_step(samples), 120)
    ranks.close()
