"""An engine whose process dies is started again by Ray, with the weights it served."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal

import psutil
import pytest

from lego_core.config import EngineConfig
from lego_core.inference.canary import perturbed_copy
from lego_core.inference.engine import EngineSpec
from lego_core.inference.ray_engine import start_engine
from lego_harness.proxy.patience import PatientEngine
from tests.support.engine_samples import request
from tests.support.tiny_model import build_random_model

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]


async def test_a_killed_engine_comes_back_with_the_weights_it_served(ray_session, tmp_path):
    """Calls made meanwhile wait; what the trainer writes to the same path in between is not served."""
    model_dir = build_random_model(tmp_path / "model")
    spec = EngineSpec(model_dir=model_dir, config=EngineConfig(dtype="float32", max_model_len=2048))
    weights = tmp_path / "weights"
    shutil.copy(perturbed_copy(model_dir, tmp_path / "changed") / "model.safetensors", weights)
    engine = await start_engine(spec)
    await engine.publish(weights, 7)
    shutil.copy(model_dir / "model.safetensors", tmp_path / "next")  # as the trainer writes
    (tmp_path / "next").rename(weights)
    patient = PatientEngine(engine)
    before = await patient.generate(request("before", sampled=20))
    actor = psutil.Process((await engine.health())["pid"])
    core = next(p for p in actor.children(recursive=True) if "EngineCore" in "".join(p.cmdline()))
    running = asyncio.create_task(patient.generate(request("running", sampled=1900)))
    await engine.generate(request("beside", sampled=2))
    os.kill(core.pid, signal.SIGKILL)
    again, running = await asyncio.gather(patient.generate(request("before", sampled=20)), running)
    assert (await engine.health())["pid"] != actor.pid
    assert (again.ids.tolist(), again.policy_version) == (before.ids.tolist(), 7)
    assert (again.logprobs == before.logprobs).all()
    assert (len(running.ids), running.policy_version) == (1900, 7)
    assert {path.name for path in engine.folder.iterdir()} >= {"weights"}
    await engine.close()
    assert not engine.folder.exists()
