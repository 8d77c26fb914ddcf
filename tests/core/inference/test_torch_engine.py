"""The engine for machines without vLLM keeps the same promises."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from lego_core.config import EngineConfig, TrainConfig
from lego_core.inference.canary import check_engine, other_weights, perturbed_copy
from lego_core.inference.spec import EngineSpec
from lego_core.inference.torch_engine import TorchEngine, processed_logprobs
from lego_core.training.trainer import Trainer, TrainerSpec
from lego_harness.errors import EngineError, UsageError
from lego_harness.types import Sampling
from tests.support.engine_samples import request, sample_many
from tests.support.tiny_model import build_random_model


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return build_random_model(tmp_path_factory.mktemp("model"), hidden=32)


@pytest.fixture
async def engine(model_dir):
    started = TorchEngine(
        EngineSpec(model_dir=model_dir, config=EngineConfig(dtype="float32", max_model_len=256))
    )
    await started.start()
    return started


async def test_what_it_samples_the_trainer_recomputes(engine, model_dir):
    samples = await sample_many(engine, [request(f"r{i}", sampled=20) for i in range(4)])
    config = TrainConfig(learning_rate=0, kl_coef=0)
    metrics = Trainer(TrainerSpec(model_dir=model_dir, config=config, temperature=1.0)).train_step(samples)
    assert metrics.mean_abs_dlogp < 1e-5
    assert metrics.routing_coverage == 1.0
    assert metrics.top1_agreement > 0.999


async def test_shapes_stops_and_routes_from_are_those_of_the_protocol(engine):
    whole = await engine.generate(request("a", context=30, sampled=20))
    tail = await engine.generate(request("a", context=30, sampled=20, routes_from=25))
    assert whole.routes.shape == (49, 2, 2)
    assert (tail.routes == whole.routes[25:]).all()
    stop = int(whole.ids[5])
    ended = await engine.generate(request("a", context=30, sampled=20, stop_ids=(stop,)))
    assert (ended.finish_reason, ended.ids[-1]) == ("stop", stop)
    with pytest.raises(EngineError, match="256 context ids"):
        await engine.generate(request("b", context=256))


async def test_published_weights_are_used_and_stamped(engine, model_dir, tmp_path):
    before = await engine.generate(request("a", sampled=10))
    await engine.publish(perturbed_copy(model_dir, tmp_path / "new") / "model.safetensors", 4)
    after = await engine.generate(request("a", sampled=10))
    assert (before.policy_version, after.policy_version) == (0, 4)
    assert before.logprobs[0] != after.logprobs[0]


async def test_an_aborted_call_ends_early(engine):
    call = asyncio.create_task(engine.generate(request("gone", sampled=200)))
    await asyncio.sleep(0)
    await engine.abort("gone")
    reply = await call
    assert reply.finish_reason == "abort"
    assert len(reply.ids) < 200


class Deaf:
    """An engine that says it took the weights and did not, or took them wrongly from `lies_from` on."""

    def __init__(self, engine, *, lies_from):
        self._engine, self._left = engine, lies_from

    async def generate(self, call):
        reply = await self._engine.generate(call)
        return replace(reply, logprobs=reply.logprobs + 1e-3) if self._left < 0 else reply

    async def publish(self, path, version):
        self._left -= 1
        if self._left >= 0:
            await self._engine.publish(path, version)


@pytest.mark.parametrize(
    ("lies_from", "message"),
    [
        (0, "transformers on the same weights"),
        (1, "pushing the weights it had started with changed"),
        (2, "pushing the model's weights once more changed"),
    ],
)
async def test_the_canary_sees_wrong_reloads_and_weights_that_never_arrive(
    engine, model_dir, lies_from, message
):
    with other_weights(model_dir) as other:
        await engine.publish(other, 0)
        with pytest.raises(EngineError, match=f"weight canary: .*{message}"):
            await check_engine(Deaf(engine, lies_from=lies_from), model_dir, other, dtype="float32")


def test_processed_logprobs_follow_temperature_top_k_and_top_p():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
    hot = processed_logprobs(logits, Sampling(temperature=2.0))
    assert hot.tolist() == pytest.approx((logits / 2).log_softmax(-1).tolist())
    two = processed_logprobs(logits, Sampling(top_k=2)).exp()
    assert two.tolist() == pytest.approx([np.e / (1 + np.e), 1 / (1 + np.e), 0, 0])
    # probabilities 0.644, 0.237, 0.087, 0.032: the first two pass 0.8
    nucleus = processed_logprobs(logits, Sampling(top_p=0.8)).exp()
    assert nucleus.tolist() == pytest.approx(two.tolist())


async def test_a_cancelled_call_leaves_the_next_one_untouched(engine):
    alone = await engine.generate(request("next", sampled=20))
    gone = asyncio.create_task(engine.generate(request("gone", sampled=200)))
    await asyncio.sleep(0)
    gone.cancel()
    after = await engine.generate(request("next", sampled=20))
    assert gone.cancelled()
    assert after.ids.tolist() == alone.ids.tolist()
    assert (after.routes == alone.routes).all()


class Asked:
    """An engine that only tells what it was asked."""

    async def generate(self, call):
        raise EngineError(f"asked for ids below {call.context_ids.max() + 1}")

    async def publish(self, path, version):
        raise AssertionError("nothing was answered yet")


async def test_the_canary_knows_the_vocabulary_of_a_multimodal_checkpoint(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"vocab_size": 1}}))
    with pytest.raises(EngineError, match="asked for ids below 1"):
        await check_engine(Asked(), tmp_path, tmp_path, dtype="float32")


async def test_a_checkpoint_without_a_vocabulary_is_refused_by_name(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match=r"config\.json: has no vocab_size"):
        await check_engine(Asked(), tmp_path, tmp_path, dtype="float32")
