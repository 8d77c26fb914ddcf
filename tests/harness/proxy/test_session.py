"""A rollout's conversation: what continues it, what ends it, and what is recorded of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from lego_harness.proxy.capture import Capture
from lego_harness.proxy.render import Renderer
from lego_harness.types import Budget, Sampling, StopReason
from tests.support.conversation import Talk
from tests.support.scripted_engine import ScriptedEngine, route_row, say

Begin = Callable[..., Awaitable[Talk]]
LS = say("Look.", ("bash", {"command": "ls"}))
DONE = say("Done.")


def trained(capture: Capture) -> list[int]:
    """Owners of each sampled token, over all branches; law 2 wants every number to be 1."""
    return [int(branch.mask.sum()) for branch in capture.branches]


# --- a linear conversation -----------------------------------------------------------------------


async def test_each_turn_continues_the_ids_of_the_last(talk: Begin, renderer: Renderer) -> None:
    engine = ScriptedEngine(renderer, [LS, LS, DONE], policy_version=4)
    t = await talk(engine)
    await t.tool_turn("calc.py")
    await t.tool_turn("nothing new")
    await t.turn()
    capture = t.session.close()
    assert capture.stop is None
    for turn, seen in zip(capture.turns, engine.requests, strict=True):
        assert turn.context_ids.tolist() == seen.context_ids.tolist()
    for turn, after in zip(capture.turns, capture.turns[1:], strict=False):
        known = [*turn.context_ids, *turn.sampled_ids]
        assert after.context_ids[: len(known)].tolist() == known
    (branch,) = capture.branches
    assert branch.ids.tolist() == [*capture.turns[-1].context_ids, *capture.turns[-1].sampled_ids]
    assert branch.mask.sum() == sum(len(turn.sampled_ids) for turn in capture.turns)
    assert set(branch.versions[branch.mask]) == {4}
    assert set(branch.versions[~branch.mask]) == {-1}
    assert not branch.logprobs[~branch.mask].any()
    assert (branch.logprobs[branch.mask] < 0).all()


async def test_the_path_names_the_dialect_whatever_headers_come_with_it(
    talk: Begin, renderer: Renderer
) -> None:
    t = await talk(ScriptedEngine(renderer, [LS, DONE]))
    t.headers = {"anthropic-version": "2023-06-01"}
    await t.tool_turn()
    body = {"input": "x", "tools": [{"type": "function", "name": "f"}]}
    async with t.http.post(f"{t.url}/v1/responses", json=body, headers=t.headers) as answer:
        assert (answer.status, (await answer.json())["object"]) == (200, "response")
    assert len(t.session.close().turns) == 2


async def test_incremental_contexts_equal_a_full_rendering(talk: Begin, renderer: Renderer) -> None:
    engine = ScriptedEngine(renderer, [LS, DONE])
    t = await talk(engine)
    await t.tool_turn("calc.py <|im_end|> <tool_call>")
    await t.turn()
    messages = t.session.close().messages
    assert engine.requests[1].context_ids.tolist() == renderer.render(messages[:-1], t.tools)


async def test_row_t_routes_position_t_and_comes_from_the_first_pass_over_it(
    talk: Begin, renderer: Renderer
) -> None:
    engine = ScriptedEngine(renderer, [LS, DONE])
    t = await talk(engine)
    await t.tool_turn()
    await t.turn()
    capture = t.session.close()
    first, last = capture.turns
    (branch,) = capture.branches
    assert branch.routes is not None
    end_of_first = len(first.context_ids) + len(first.sampled_ids) - 1
    assert engine.requests[1].routes_from == last.routes_from == end_of_first
    for position in range(len(branch.ids) - 1):
        assert branch.routes[position].tolist() == route_row(0 if position < end_of_first else 1, position)
    assert (branch.routes[-1] == -1).all()


async def test_without_experts_there_are_no_routes(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [DONE], has_routes=False))
    await t.turn()
    capture = t.session.close()
    assert (capture.branches[0].routes, capture.turns[0].routes) == (None, None)


async def test_a_cut_turn_is_closed_with_a_token_that_nobody_sampled(talk: Begin, renderer: Renderer) -> None:
    cut = renderer.vocabulary.encode("I was about to")
    engine = ScriptedEngine(renderer, [cut, DONE])
    t = await talk(engine)
    await t.turn()
    t.messages.append({"role": "user", "content": "Go on."})
    await t.turn()
    capture = t.session.close()
    end = len(capture.turns[0].context_ids) + len(cut)
    assert engine.requests[1].context_ids[end] == renderer.vocabulary.end_of_turn
    assert not capture.branches[0].mask[end]
    assert engine.requests[1].context_ids.tolist() == renderer.render(capture.messages[:-1], t.tools)


async def test_parallel_results_are_put_into_the_order_of_their_calls(
    talk: Begin, renderer: Renderer
) -> None:
    both = say("", ("bash", {"command": "slow"}), ("bash", {"command": "fast"}))
    t = await talk(ScriptedEngine(renderer, [both, DONE]))
    calls = (await t.turn())["tool_calls"]
    for call, output in ((calls[1], "fast"), (calls[0], "slow")):
        t.messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
    await t.turn()
    messages = t.session.close().messages
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["slow", "fast"]


async def test_the_proxy_owns_sampling_and_records_what_was_asked(talk: Begin, renderer: Renderer) -> None:
    engine = ScriptedEngine(renderer, [LS, DONE])
    t = await talk(engine, sampling=Sampling(temperature=0.7, top_p=0.9, max_tokens=64, seed=3))
    status, answer = await t.post(temperature=0.0, max_tokens=1, model="gpt", seed=5)
    assert status == 200
    assert answer["model"] == "gpt"
    t.messages.append(answer["choices"][0]["message"])
    t.result("ok")
    await t.turn()
    first, second = (request.sampling for request in engine.requests)
    assert (first.temperature, first.top_p, first.max_tokens) == (0.7, 0.9, 64)
    assert first.seed != second.seed
    assert t.session.close().asked[0] == {"model": "gpt", "temperature": 0.0, "max_tokens": 1, "seed": 5}


async def test_the_same_rollout_asks_the_same_and_names_calls_the_same(
    serve: Any, renderer: Renderer
) -> None:
    async def once(rollout_id: str, seed: int) -> tuple[list[int | None], str]:
        engine = ScriptedEngine(renderer, [LS, DONE])
        async with Talk.begin(await serve(engine), rollout_id=rollout_id, sampling=Sampling(seed=seed)) as t:
            message = await t.tool_turn()
            await t.turn()
            t.session.close()
        return [request.sampling.seed for request in engine.requests], message["tool_calls"][0]["id"]

    assert await once("a", 1) == await once("a", 1)
    assert (await once("a", 1))[0] != (await once("a", 2))[0]
    assert (await once("a", 1))[1] != (await once("b", 1))[1]


# --- retries and clients that vanish -------------------------------------------------------------


async def test_a_vanished_client_frees_the_engine_and_leaves_nothing(talk: Begin, renderer: Renderer) -> None:
    gate = asyncio.Event()
    engine = ScriptedEngine(renderer, [DONE], gate=gate)
    t = await talk(engine)
    for stream in (False, True):
        engine.started.clear()
        request = asyncio.create_task(t.post(stream=stream))
        await asyncio.wait_for(engine.started.wait(), 5)
        request.cancel()
        await asyncio.wait({request})
    await asyncio.wait_for(_until(lambda: engine.num_cancelled == 2), 5)
    gate.set()
    await t.turn()
    capture = t.session.close()
    assert len(capture.turns) == 1
    assert {tuple(request.context_ids) for request in engine.requests} == {
        tuple(capture.turns[0].context_ids)
    }
    assert len({request.sampling.seed for request in engine.requests}) == 1
    assert len({request.request_id for request in engine.requests}) == 3


async def _until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0)


async def test_an_undelivered_reply_is_kept_for_the_retry(talk: Begin, renderer: Renderer) -> None:
    engine = ScriptedEngine(renderer, [LS, DONE])
    t = await talk(engine)
    request = _folded(t)
    lost = await t.session.answer(request)  # sampled and recorded, but never handed to a client
    message = await t.turn()
    assert message["tool_calls"][0]["id"].removeprefix("call_") in lost.message["tool_calls"][0]["id"]  # type: ignore[typeddict-item]
    t.result("ok")
    await t.turn()
    capture = t.session.close()
    assert len(engine.requests) == len(capture.turns) == 2
    assert capture.stop is None


def _folded(t: Talk) -> Any:
    from lego_harness.proxy.dialects.chat import ChatDialect

    return ChatDialect().fold({"messages": t.messages, "tools": t.tools})


async def test_equal_requests_wait_for_one_another_and_are_sampled_each(
    talk: Begin, renderer: Renderer
) -> None:
    gate = asyncio.Event()
    engine = ScriptedEngine(renderer, [LS, DONE], gate=gate)
    t = await talk(engine)
    posts = [asyncio.create_task(t.post()) for _ in range(2)]
    await asyncio.wait_for(engine.started.wait(), 5)
    await _until(lambda: any(serving.num_users == 2 for serving in t.session._serving.values()))
    assert len(engine.requests) == 1
    gate.set()
    assert [status for status, _ in await asyncio.gather(*posts)] == [200, 200]
    capture = t.session.close()
    assert len(engine.requests) == 2  # the first reply was delivered, so this is no retry
    assert [fork.cause for fork in capture.forks] == ["resampled"]
    assert trained(capture) == [len(turn.sampled_ids) for turn in capture.turns]


# --- closing -------------------------------------------------------------------------------------


async def test_closing_drops_the_call_in_flight_and_refuses_what_follows(
    talk: Begin, renderer: Renderer
) -> None:
    engine = ScriptedEngine(renderer, [DONE], gate=asyncio.Event())
    t = await talk(engine)
    request = asyncio.create_task(t.post())
    await asyncio.wait_for(engine.started.wait(), 5)
    capture = t.session.close()
    status, answer = await request
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert engine.num_cancelled == 1
    assert (capture.turns, capture.branches, capture.stop) == ((), (), None)
    assert (await t.post())[0] == 401
    assert t.session.close() == capture


async def test_one_rollout_cannot_touch_another(serve: Any, renderer: Renderer) -> None:
    proxy = await serve(ScriptedEngine(renderer, [LS, DONE]))
    async with Talk.begin(proxy, rollout_id="a") as one, Talk.begin(proxy, rollout_id="b") as other:
        await one.tool_turn()
        await other.turn()
        assert one.session.close().turns[0].sampled_ids.tolist() == renderer.encode_assistant(LS)
        assert other.session.close().turns[0].sampled_ids.tolist() == renderer.encode_assistant(DONE)


async def test_closing_the_proxy_ends_its_sessions(serve: Any, renderer: Renderer) -> None:
    proxy = await serve(ScriptedEngine(renderer, [DONE]))
    session = proxy.open_session("a", Sampling(), Budget())
    await proxy.close()
    assert session.ended.is_set()
    assert session.close().stop is StopReason.CANCELLED
    assert not session.endpoint.socket.exists()
