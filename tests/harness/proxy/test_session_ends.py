"""What ends a rollout's conversation: budgets, and an engine that cannot be believed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lego_harness.errors import EngineError, UsageError
from lego_harness.proxy.render import Renderer
from lego_harness.types import Budget, GenerateRequest, Generation, Sampling, StopReason
from tests.support.conversation import Talk
from tests.support.scripted_engine import ScriptedEngine, say

Begin = Callable[..., Awaitable[Talk]]
LS = say("Look.", ("bash", {"command": "ls"}))
DONE = say("Done.")


# --- budgets -------------------------------------------------------------------------------------


async def test_turns_beyond_the_budget_truncate(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [LS, LS, LS]), budget=Budget(max_turns=2))
    await t.tool_turn()
    await t.tool_turn()
    assert not t.session.ended.is_set()
    assert (await t.post())[0] == 400
    assert t.session.ended.is_set()
    capture = t.session.close()
    assert (capture.stop, capture.error, len(capture.turns)) == (StopReason.TRUNCATED_TURNS, "", 2)


async def test_calls_that_are_under_way_when_a_budget_ends_are_recorded(
    talk: Begin, renderer: Renderer
) -> None:
    gate = asyncio.Event()
    engine = ScriptedEngine(renderer, [LS, DONE], gate=gate)
    t = await talk(engine, budget=Budget(max_turns=2))
    asked = [[{"role": "user", "content": name}] for name in "abc"]
    calls = [asyncio.create_task(t.post(messages=messages)) for messages in asked[:2]]
    while len(engine.requests) < 2:  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0)
    assert (await t.post(messages=asked[2]))[0] == 400
    gate.set()
    assert [status for status, _ in await asyncio.gather(*calls)] == [400, 400]
    capture = t.session.close()
    assert (capture.stop, len(capture.turns)) == (StopReason.TRUNCATED_TURNS, 2)
    sampled = [len(renderer.encode_assistant(step)) for step in (LS, DONE)]
    assert sum(int(branch.mask.sum()) for branch in capture.branches) == sum(sampled)


async def test_the_token_budget_shortens_the_last_turn_and_then_truncates(
    talk: Begin, renderer: Renderer
) -> None:
    size = len(renderer.encode_assistant(LS))
    engine = ScriptedEngine(renderer, [LS, LS, LS])
    t = await talk(engine, budget=Budget(max_tokens=size + 5))
    await t.tool_turn()
    cut = await t.turn()
    assert "tool_calls" not in cut
    assert engine.requests[1].sampling.max_tokens == 5
    t.messages.append({"role": "user", "content": "Go on."})
    assert (await t.post())[0] == 400
    capture = t.session.close()
    assert capture.stop is StopReason.TRUNCATED_TOKENS
    assert [int(branch.mask.sum()) for branch in capture.branches] == [size + 5]


async def test_a_context_beyond_the_engines_length_truncates(talk: Begin, renderer: Renderer) -> None:
    engine = ScriptedEngine(renderer, [LS, LS])
    t = await talk(engine)
    await t.tool_turn("x\n" * renderer.max_model_len)
    assert (await t.post())[0] == 400
    assert t.session.close().stop is StopReason.TRUNCATED_TOKENS
    assert len(engine.requests) == 1


async def test_a_first_context_that_cannot_fit_is_a_failure_not_a_truncation(
    talk: Begin, renderer: Renderer
) -> None:
    t = await talk(ScriptedEngine(renderer, []))
    t.messages[1]["content"] = "x\n" * renderer.max_model_len
    assert (await t.post())[0] == 400
    capture = t.session.close()
    assert capture.stop is StopReason.FAILED_ENGINE
    assert "max_model_len is 4096" in capture.error


async def test_what_is_far_too_long_truncates_without_being_tokenised(
    talk: Begin, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = await talk(ScriptedEngine(renderer, [LS]))
    await t.tool_turn("x" * 200_000)
    monkeypatch.setattr(renderer.vocabulary, "encode", None)
    assert (await t.post())[0] == 400
    assert t.session.close().stop is StopReason.TRUNCATED_TOKENS


async def test_turns_beyond_the_engines_length_are_not_rendered(
    talk: Begin, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = await talk(ScriptedEngine(renderer, [LS]))
    await t.tool_turn()
    t.messages += [{"role": "assistant", "content": "x"}] * renderer.max_model_len
    rendered: list[object] = []
    render_turn = renderer.render_turn
    monkeypatch.setattr(renderer, "render_turn", lambda turn: rendered.append(turn) or render_turn(turn))
    assert (await t.post())[0] == 400
    assert t.session.close().stop is StopReason.TRUNCATED_TOKENS
    assert len(rendered) * len(render_turn(t.messages[-1])) <= renderer.max_model_len


async def test_max_tokens_never_passes_the_engines_length(talk: Begin, renderer: Renderer) -> None:
    engine = ScriptedEngine(renderer, [DONE])
    t = await talk(engine, sampling=Sampling(max_tokens=10**6), budget=Budget(max_tokens=10**6))
    await t.turn()
    (request,) = engine.requests
    assert len(request.context_ids) + request.sampling.max_tokens == renderer.max_model_len


# --- an engine that cannot be believed -----------------------------------------------------------


def _with(**changed: Any) -> Callable[[ScriptedEngine, GenerateRequest], Generation]:
    def spoil(engine: ScriptedEngine, request: GenerateRequest) -> Generation:
        good = engine.generation(request, engine.renderer.encode_assistant(DONE))
        return replace(good, **{key: make(good) for key, make in changed.items()})

    return spoil


def _logprob(value: float) -> Callable[[Generation], Any]:
    return lambda good: np.where(np.arange(len(good.ids)) == 1, np.float32(value), good.logprobs)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_with(ids=lambda g: g.ids[:0], logprobs=lambda g: g.logprobs[:0]), "expected [m ≥ 1]"),
        (_with(ids=lambda g: g.ids + 100_000), "the vocabulary has 512"),
        (_with(ids=lambda g: -g.ids), "the vocabulary has 512"),
        (_with(ids=lambda g: g.ids.astype(np.float32)), "integers"),
        (_with(ids=lambda g: np.roll(g.ids, 1)), "and sampling went on"),
        (_with(ids=lambda g: np.ones(9999, np.int32)), "at most 256 were asked for"),
        (_with(logprobs=_logprob(float("nan"))), "log-probability nan at sampled position 1"),
        (_with(logprobs=_logprob(float("-inf"))), "log-probability -inf"),
        (_with(logprobs=_logprob(0.5)), "log-probability 0.5"),
        (_with(logprobs=lambda g: g.logprobs[1:]), "log-probabilities of shape"),
        (_with(routes=lambda g: g.routes[1:]), "routing rows of shape"),
        (_with(routes=lambda g: g.routes[..., 0]), "routing rows of shape"),
        (_with(routes=lambda g: g.routes - 1000), "expert ids in"),
        (_with(finish_reason=lambda g: "abort"), "finish reason 'abort'"),
        (_with(versions=lambda g: np.zeros(len(g.ids) - 1, np.int32)), "policy versions of shape"),
        (_with(versions=lambda g: np.zeros(len(g.ids))), "policy versions of shape"),
        (_with(versions=lambda g: np.full(len(g.ids), g.policy_version + 1)), "expected them to begin with"),
        (_with(versions=lambda g: g.policy_version - np.arange(len(g.ids))), "and never to fall"),
    ],
)
async def test_an_impossible_generation_is_an_engine_failure_by_name(
    spoil: Any, words: str, talk: Begin, renderer: Renderer
) -> None:
    engine = ScriptedEngine(renderer, [lambda request: spoil(engine, request)])
    t = await talk(engine)
    status, answer = await t.post()
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert t.session.ended.is_set()
    capture = t.session.close()
    assert capture.stop is StopReason.FAILED_ENGINE
    assert words in capture.error
    assert (capture.turns, capture.branches) == ((), ())


async def test_routes_that_stop_coming_are_an_engine_failure(talk: Begin, renderer: Renderer) -> None:
    engine = ScriptedEngine(
        renderer, [LS, lambda request: replace(engine.generation(request, [1]), routes=None)]
    )
    t = await talk(engine)
    await t.tool_turn()
    assert (await t.post())[0] == 400
    capture = t.session.close()
    assert "earlier turns of the rollout had them" in capture.error
    assert len(capture.turns) == 1


async def test_a_failed_engine_ends_the_rollout_and_keeps_its_turns(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [LS, EngineError("engine: no answer for 120 s")]))
    await t.tool_turn()
    assert (await t.post())[0] == 400
    assert (await t.post())[0] == 400
    capture = t.session.close()
    assert (capture.stop, capture.error) == (StopReason.FAILED_ENGINE, "engine: no answer for 120 s")
    assert len(capture.turns) == 1


def refuse_openings(_: Renderer, messages: object, tools: object) -> list[int]:
    raise UsageError("the model's chat template refuses this conversation: no question")


async def test_a_first_conversation_that_the_template_refuses_ends_the_rollout(
    talk: Begin, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = await talk(ScriptedEngine(renderer, []))
    monkeypatch.setattr(Renderer, "render_opening", refuse_openings)
    assert (await t.post())[0] == 400
    capture = t.session.close()
    assert (capture.stop, "no question" in capture.error) == (StopReason.FAILED_ALIGNMENT, True)


async def test_another_conversation_that_the_template_refuses_ends_nothing(
    talk: Begin, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that has lost could begin one, and be done again instead of earning nothing."""
    t = await talk(ScriptedEngine(renderer, [LS, DONE]))
    await t.tool_turn()
    with monkeypatch.context() as patch:
        patch.setattr(Renderer, "render_opening", refuse_openings)
        status, answer = await t.post(messages=[{"role": "system", "content": "x"}])
    assert (status, "no question" in str(answer)) == (400, True)
    assert (await t.turn())["content"] == "Done."
    capture = t.session.close()
    assert (capture.stop, capture.error, len(capture.turns)) == (None, "", 2)


async def test_a_fault_of_the_proxy_ends_the_rollout_without_a_5xx(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [ZeroDivisionError("surprise")]))
    assert (await t.post())[0] == 400
    capture = t.session.close()
    assert capture.stop is StopReason.FAILED_ALIGNMENT
    assert "surprise" in capture.error
