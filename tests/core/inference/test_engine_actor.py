"""The process of an engine, before Ray is asked to start it again: what it answers, and when it gives up."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import torch
from safetensors.torch import load_file

from lego_core.config import EngineConfig
from lego_core.inference.canary import perturbed_copy
from lego_core.inference.engine_actor import EngineActor
from lego_core.inference.spec import EngineSpec
from lego_core.inference.torch_engine import TorchEngine
from lego_core.weight_files import ChangesWriter, write_weights
from lego_harness.errors import EngineUnavailable
from lego_harness.proxy.patience import PatientEngine
from tests.support.engine_samples import request
from tests.support.tiny_model import build_random_model

RESTARTED = """
import asyncio, sys
from pathlib import Path
from lego_core.config import EngineConfig
from lego_core.inference.spec import EngineSpec
from lego_core.inference.engine_actor import EngineActor
from lego_core.inference.torch_engine import TorchEngine
from lego_harness.errors import EngineUnavailable
from tests.support.engine_samples import request

async def main(folder):
    spec = EngineSpec(model_dir=folder / "nowhere", config=EngineConfig(dtype="float32"))
    actor = EngineActor(TorchEngine, spec, folder)
    try:
        await actor.generate(request("first"))
    except EngineUnavailable as error:
        print(error, flush=True)
    await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_the_next_process_answers_once_it_holds_what_was_published_last(tmp_path):
    model_dir = build_random_model(tmp_path / "model", hidden=32)
    spec = EngineSpec(model_dir=model_dir, config=EngineConfig(dtype="float32", max_model_len=256))
    first = EngineActor(TorchEngine, spec, tmp_path)
    await first.start()
    await first.publish(perturbed_copy(model_dir, tmp_path / "changed") / "model.safetensors", 7)
    before = await first.generate(request("a", sampled=20))

    restarted = EngineActor(TorchEngine, spec, tmp_path)
    calls = (restarted.generate(request("b")), restarted.publish(model_dir, 8), restarted.health())
    for refused in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(refused, EngineUnavailable), refused
    after = await PatientEngine(restarted).generate(request("a", sampled=20))
    assert (after.policy_version, after.ids.tolist()) == (7, before.ids.tolist())
    assert (after.logprobs == before.logprobs).all()
    assert (await restarted.health())["policy_version"] == 7


async def test_an_engine_that_gets_what_changed_answers_as_one_that_gets_everything(tmp_path):
    """Its process dies in between, as it does on a machine that runs out of memory."""
    model_dir = build_random_model(tmp_path / "model", hidden=32)
    spec = EngineSpec(model_dir=model_dir, config=EngineConfig(dtype="float32", max_model_len=256))
    folders = [tmp_path / name for name in ("full", "delta")]
    writers = (write_weights, ChangesWriter(torch.float32).write)
    answers: list[list[float]] = []
    for folder, write in zip(folders, writers, strict=True):
        folder.mkdir()
        actor = EngineActor(TorchEngine, spec, folder)
        await actor.start()
        for version, changed in enumerate((0, 3, 5), start=1):
            tensors = load_file(model_dir / "model.safetensors")
            for name in sorted(tensors)[:changed]:
                tensors[name].view(-1)[::7] += 0.5
            write(tensors, tmp_path / "weights")
            await actor.publish(tmp_path / "weights", version)
            if version == 2:
                actor = EngineActor(TorchEngine, spec, folder)
                await actor.start()
        reply = await actor.generate(request("a", sampled=20))
        answers.append([reply.policy_version, *reply.ids.tolist(), *reply.logprobs.tolist()])
    assert answers[0] == answers[1]
    assert answers[0][0] == 3


def test_a_restarted_process_that_cannot_start_ends_so_that_the_next_may_try(tmp_path):
    program = [sys.executable, "-c", RESTARTED, str(tmp_path)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert ended.stdout == "call first has to wait: the engine is starting again\n", ended.stderr
    assert ended.returncode == 1
