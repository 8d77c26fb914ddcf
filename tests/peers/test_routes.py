"""Routing rows stand at the position they routed, come from the pass that sampled, or are absent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lego_core.config import EngineConfig
from lego_core.inference.engine import VllmEngine
from lego_core.inference.spec import EngineSpec
from lego_core.inference.torch_engine import TorchEngine
from lego_core.training.model import load_policy
from lego_core.training.routing_replay import install_replay, replaying
from lego_core.training.trainer import Trainer
from lego_core.types import Sample
from lego_harness.errors import EngineError
from lego_harness.proxy.render import Renderer
from lego_harness.types import GenerateRequest, Generation
from tests.support.conversation import Talk
from tests.support.engine_samples import request, sample_many
from tests.support.graded import spec, step
from tests.support.samples import random_sample
from tests.support.scripted_engine import ScriptedEngine, route_row, say

Begin = Callable[[ScriptedEngine], Awaitable[Talk]]
DONE = say("Done.")


# --- recorded ------------------------------------------------------------------------------------


async def test_a_token_that_its_text_would_not_become_again_shifts_no_row(
    talk: Begin, renderer: Renderer
) -> None:
    """inclusionAI/AReno#524, sgl-project/sglang#26555: rows sliced at a retokenised boundary, one off."""
    vocabulary = renderer.vocabulary
    odd = [*(token for letter in "assistant" for token in vocabulary.encode(letter)), vocabulary.end_of_turn]
    assert len(vocabulary.encode("assistant")) < len(odd) - 1
    t = await talk(ScriptedEngine(renderer, [odd, odd, DONE]))
    for _ in range(3):
        await t.turn()
        t.messages.append({"role": "user", "content": "Go on."})
    capture = t.session.close()
    (branch,) = capture.branches
    assert branch.routes is not None
    for turn in capture.turns:
        end = len(turn.context_ids) + len(turn.sampled_ids) - 1  # the last sampled token has no row yet
        assert turn.routes is not None
        assert len(turn.routes) == end - turn.routes_from
        for position in range(turn.routes_from, end):
            assert branch.routes[position].tolist() == route_row(turn.index, position)
    assert (branch.routes[-1] == -1).all()
    assert (branch.routes[:-1] >= 0).all()


async def test_rows_of_an_attempt_that_was_taken_back_are_taken_back_with_it(
    talk: Begin, renderer: Renderer
) -> None:
    """radixark/miles#3277: a retracted call paired its old log-probabilities with new routes."""

    def retracted(call: GenerateRequest) -> Generation:
        half = engine.generation(call, renderer.encode_assistant(DONE)[:2])
        return replace(half, finish_reason="abort", logprobs=half.logprobs - 5)

    engine = ScriptedEngine(renderer, [say("First."), retracted, DONE])
    t = await talk(engine)
    await t.turn()
    t.messages.append({"role": "user", "content": "Go on."})
    await t.turn()
    capture = t.session.close()
    (branch,) = capture.branches
    first, second = capture.turns
    assert branch.routes is not None
    assert len(engine.requests) == 3
    for position in range(second.routes_from, len(branch.ids) - 1):
        assert branch.routes[position].tolist() == route_row(2, position)
    assert second.logprobs.min() > -5
    assert branch.logprobs[branch.mask].tolist() == [*first.logprobs, *second.logprobs]


# --- from the engine -----------------------------------------------------------------------------


class RoutelessLlm:
    """vLLM as it answers when routes were asked for and its capture is not there."""

    model_config = SimpleNamespace(hf_text_config=SimpleNamespace(num_experts=8))

    async def init_weight_transfer_engine(self, request: Any) -> None: ...

    async def add_request(self, request_id: str, prompt: Any, params: Any) -> Any:
        ids = list(range(params.max_tokens))
        logprobs = [{token: SimpleNamespace(logprob=-1.0)} for token in ids]
        output = SimpleNamespace(
            token_ids=ids, logprobs=logprobs, finish_reason="length", routed_experts=None
        )
        answer = SimpleNamespace(outputs=[output])
        return SimpleNamespace(get_nowait=lambda: answer, close=lambda: None)


@pytest.mark.slow
async def test_an_engine_without_the_routes_that_were_asked_for_does_not_start(
    monkeypatch: pytest.MonkeyPatch, model_dir: Path
) -> None:
    """THUDM/slime#1909, radixark/miles#407: replay was on and the routes never arrived."""
    monkeypatch.setattr("lego_core.inference.engine.build_llm", lambda spec: RoutelessLlm())
    engine = VllmEngine(
        EngineSpec(model_dir=model_dir, config=EngineConfig(dtype="float32", max_model_len=4096))
    )
    with pytest.raises(EngineError, match=r"call canary returned routes of none, expected \[71, layers, k\]"):
        await engine.start()


# --- replayed ------------------------------------------------------------------------------------


@pytest.fixture
async def samples(model_dir: Path) -> list[Sample]:
    """Sampled by a real model with the routes it took."""
    engine = TorchEngine(
        EngineSpec(model_dir=model_dir, config=EngineConfig(dtype="float32", max_model_len=4096))
    )
    await engine.publish(model_dir, 0)
    return await sample_many(engine, [request(f"r{i}", context=20, sampled=20) for i in range(3)])


def with_first_layer_of(samples: list[Sample], others: list[Sample]) -> list[Sample]:
    """As where another model's router wrote into the same column."""
    mixed: list[Sample] = []
    for sample, other in zip(samples, others, strict=True):
        assert sample.routes is not None
        assert other.routes is not None
        routes = sample.routes.copy()
        routes[:-1, 0] = other.routes[: len(routes) - 1, 0]
        mixed.append(replace(sample, routes=routes))
    return mixed


async def test_a_column_that_another_router_wrote_is_seen_in_the_step(
    samples: list[Sample], model_dir: Path
) -> None:
    """vllm-project/vllm#48622: the draft model's routes stood in layer 0."""
    others = [random_sample(s.rollout_id, len(s.ids), seed=i) for i, s in enumerate(samples)]
    true = step(model_dir, samples)
    mixed = step(model_dir, with_first_layer_of(samples, others))
    assert (true.expert_overlap, true.top1_agreement) == (1.0, 1.0)
    assert mixed.routing_coverage == true.routing_coverage == 1.0
    assert mixed.expert_overlap is not None
    assert mixed.top1_agreement is not None
    assert mixed.expert_overlap < 0.75
    assert mixed.top1_agreement < 0.75
    assert mixed.mean_abs_dlogp > 100 * true.mean_abs_dlogp


def test_what_was_replayed_is_forgotten_with_its_micro_batch(model_dir: Path) -> None:
    """NovaSky-AI/SkyRL#1908: a replay outlived the pass that it was recorded for."""
    routed = [random_sample(f"r{i}", 30, seed=i) for i in range(3)]
    native = [replace(sample, routes=None) for sample in routed]
    used = Trainer(spec(model_dir))
    for _ in range(2):
        replayed, after = used.train_step(routed), used.train_step(native)
        assert replayed.mean_abs_dlogp != after.mean_abs_dlogp
        assert after.mean_abs_dlogp == step(model_dir, native).mean_abs_dlogp
        assert (after.routing_coverage, after.expert_overlap) == (0.0, None)


def test_a_pass_behind_a_replay_that_failed_routes_natively(model_dir: Path) -> None:
    """NovaSky-AI/SkyRL#1908: what failed in the middle must leave nothing to be replayed either."""
    model = load_policy(model_dir, dtype=torch.float64, device=torch.device("cpu"), experts="eager")
    routers = install_replay(model)
    sample = random_sample("r", 30)
    assert sample.routes is not None
    ids, routes = torch.from_numpy(sample.ids)[None].long(), torch.from_numpy(sample.routes)[None]

    def hidden() -> torch.Tensor:
        with torch.no_grad():
            return model.model(input_ids=ids, use_cache=False).last_hidden_state

    def failing() -> None:
        with replaying(routers, routes):
            assert not torch.equal(hidden(), native)
            raise ZeroDivisionError

    native = hidden()
    with pytest.raises(ZeroDivisionError):
        failing()
    assert torch.equal(hidden(), native)
