"""What the core proves before a run, on a real engine and trainer, and which planted fault each proof finds."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lego_core.config import EngineConfig, TrainConfig
from lego_core.inference.call_sample import as_sample
from lego_core.inference.spec import EngineSpec
from lego_core.inference.torch_engine import TorchEngine
from lego_core.proofs import trainer as proofs
from lego_core.proofs.engine import ask, failed_start, prove_answers
from lego_core.training import checkpoint
from lego_core.training.trainer import Trainer, TrainerSpec
from lego_core.types import Sample
from lego_harness.errors import EngineError
from lego_harness.types import GenerateRequest, Generation
from tests.support.tiny_model import build_random_model

CONFIG = TrainConfig(learning_rate=1e-3, kl_coef=0, micro_batch_tokens=4096)


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_model(tmp_path_factory.mktemp("proofs") / "m", init_std=0.25)


@pytest.fixture(scope="module")
def answers(model_dir: Path) -> tuple[list[GenerateRequest], list[Generation]]:
    async def sample() -> tuple[list[GenerateRequest], list[Generation]]:
        engine = TorchEngine(EngineSpec(model_dir=model_dir, config=EngineConfig(dtype="float32")))
        await engine.start()
        return await ask(engine, model_dir, 1.0)

    return asyncio.run(sample())


@pytest.fixture
def samples(answers: tuple[list[GenerateRequest], list[Generation]]) -> list[Sample]:
    return [as_sample(call, reply, advantage=1.0) for call, reply in zip(*answers, strict=True)]


@pytest.fixture
def spec(model_dir: Path) -> TrainerSpec:
    return TrainerSpec(model_dir=model_dir, config=CONFIG, temperature=1.0)


def test_an_engine_that_answers_whole_passes(answers, model_dir: Path) -> None:
    assert prove_answers(*answers, model_dir=model_dir, wants_routes=True).status == "passed"


def test_a_multimodal_checkpoint_is_measured_by_its_language_model(
    answers, model_dir: Path, tmp_path: Path
) -> None:
    config = json.loads((model_dir / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({"text_config": config}))
    assert prove_answers(*answers, model_dir=tmp_path, wants_routes=True).status == "passed"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda g: replace(g, routes=None),
        lambda g: replace(g, routes=g.routes[:-1]),
        lambda g: replace(g, routes=np.where(np.arange(len(g.routes))[:, None, None] == 3, -1, g.routes)),
        lambda g: replace(g, logprobs=g.logprobs[:-1]),
        lambda g: replace(g, logprobs=-g.logprobs),
        lambda g: replace(g, logprobs=g.logprobs * np.nan),
        lambda g: replace(g, ids=g.ids + 512),
    ],
    ids=["no routes", "a row short", "a hole", "one short", "positive", "nan", "beyond the vocabulary"],
)
def test_an_engine_that_leaves_something_out_fails(spoil, answers, model_dir: Path) -> None:
    calls, replies = answers
    spoilt = [*replies[:-1], spoil(replies[-1])]
    assert prove_answers(calls, spoilt, model_dir=model_dir, wants_routes=True).status == "failed"


def test_a_canary_that_fails_is_told_as_weight_sync() -> None:
    told = failed_start(EngineError("weight canary: pushing identical weights changed the answer"))
    assert [(t.name, t.status) for t in told] == [("engine", "passed"), ("weight_sync", "failed")]
    assert [(t.name, t.status) for t in failed_start(EngineError("out of memory"))] == [("engine", "failed")]


def test_trainer_and_engine_agree_and_aligned_routes_are_the_best(
    spec: TrainerSpec, samples: list[Sample]
) -> None:
    aligned = proofs.measure(spec, samples)
    assert proofs.prove_agreement(aligned).status == "passed"
    assert proofs.prove_routes(spec, samples, aligned).status == "passed"


def test_another_temperature_is_no_agreement(spec: TrainerSpec, samples: list[Sample]) -> None:
    found = proofs.measure(replace(spec, temperature=0.5), samples)
    assert proofs.prove_agreement(found).status == "failed"


def test_routes_that_are_late_by_one_position_are_found(spec: TrainerSpec, samples: list[Sample]) -> None:
    late = [proofs._shifted(sample) for sample in samples]
    assert proofs.prove_routes(spec, late, proofs.measure(spec, late)).status == "failed"


def test_a_checkpoint_goes_on_bit_for_bit(spec: TrainerSpec, samples: list[Sample], tmp_path: Path) -> None:
    assert proofs.prove_checkpoint(spec, samples, tmp_path).status == "passed"


def test_a_checkpoint_without_the_optimizer_is_found(
    spec: TrainerSpec, samples: list[Sample], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "make_room", lambda *_: None)
    told = proofs.prove_checkpoint(spec, samples, tmp_path)
    assert (told.status, told.evidence) == ("failed", "a loaded checkpoint differs after the next step")


def test_a_checkpoint_that_loses_weights_is_found(
    spec: TrainerSpec, samples: list[Sample], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trainer, "load_checkpoint", lambda self, folder: {"proof": 1})
    assert proofs.prove_checkpoint(spec, samples, tmp_path).evidence.endswith("after loading")
