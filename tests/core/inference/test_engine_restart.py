"""An engine whose process dies is started again by Ray, with the weights it served."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal

import numpy as np
import psutil
import pytest

from lego_core.config import EngineConfig
from lego_core.inference.canary import FP32_TOLERANCE, perturbed_copy
from lego_core.inference.ray_engine import start_engine
from lego_core.inference.spec import EngineSpec
from lego_harness.proxy.patience import PatientEngine
from tests.support.engine_samples import request
from tests.support.tiny_model import build_random_model

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]


async def test_a_killed_engine_comes_back_with_the_weights_it_served(ray_session, tmp_path):
    """Calls made meanwhile wait; what the trainer writes to the same path in between is not served."""
    model_dir = build_random_model(tmp_path / "model")
    spec = EngineSpec(
        model_dir=model_dir, config=EngineConfig(dtype="float32", max_model_len=2048, timeout_s=600.0)
    )
    weights = tmp_path / "weights"
    shutil.copy(perturbed_copy(model_dir, tmp_path / "changed") / "model.safetensors", weights)
    engine = await start_engine(spec)
    await engine.publish(weights, 7)
    shutil.copy(model_dir / "model.safetensors", tmp_path / "next")  # as the trainer writes
    (tmp_path / "next").rename(weights)
    patient = PatientEngine(engine)
    before = await patient.generate(request("before", sampled=20))
    pid, core = await processes(engine)
    running = asyncio.create_task(patient.generate(request("running", sampled=1000)))
    await engine.generate(request("beside", sampled=2))
    core.kill()
    again, running = await asyncio.gather(patient.generate(request("before", sampled=20)), running)
    assert (again.ids.tolist(), again.policy_version) == (before.ids.tolist(), 7)
    # As of these weights, not bit by bit: what runs beside a call shapes the sums it is computed in.
    assert np.abs(again.logprobs - before.logprobs).max() < FP32_TOLERANCE
    assert (len(running.ids), running.policy_version) == (1000, 7)
    assert (await engine.health())["pid"] != pid
    await killed_while_it_takes_weights(engine, weights)
    assert (await patient.generate(request("after", sampled=5))).policy_version == 8
    await killed_with_its_actor(engine)
    await engine.close()
    assert not engine.folder.exists()


async def killed_while_it_takes_weights(engine, weights):
    """vLLM itself would never answer the one who publishes."""
    _, core = await processes(engine)
    core.suspend()
    publishing = asyncio.create_task(engine.publish(weights, 8))
    for _ in range(3):  # each is answered by the engine that has begun to publish
        await engine.health()
    core.kill()
    await publishing


async def killed_with_its_actor(engine):
    """Which Ray starts again: the process that computed would stand in the way of the next one."""
    pid, core = await processes(engine)
    os.kill(pid, signal.SIGKILL)
    await asyncio.to_thread(core.wait, 120)


async def processes(engine):
    """The id of the engine's actor, and the process in which vLLM computes."""
    pid = (await engine.health())["pid"]
    family = psutil.Process(pid).children(recursive=True)
    return pid, next(process for process in family if "EngineCore" in "".join(process.cmdline()))
