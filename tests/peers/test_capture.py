"""Every sampled token stays as it was sampled and is trained once, whatever a harness makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.capture import Capture
from lego_harness.proxy.render import Renderer
from tests.support.conversation import BASH, Talk
from tests.support.graded import batch, group, rollout
from tests.support.scripted_engine import ScriptedEngine, say

Begin = Callable[[ScriptedEngine], Awaitable[Talk]]
Serve = Callable[[ScriptedEngine], Awaitable[CaptureProxy]]
LS = say("Look.", ("bash", {"command": "ls"}))
DONE = say("Done.")


def owned(capture: Capture) -> list[int]:
    """Trained tokens by branch."""
    return [int(branch.mask.sum()) for branch in capture.branches]


# --- a turn that does not come back as it was ----------------------------------------------------


def edited(t: Talk) -> None:
    t.messages[-1]["content"] = "Something else."


def dropped(t: Talk) -> None:
    t.messages.pop()


@pytest.mark.parametrize("rewrite", [edited, dropped])
async def test_a_turn_that_comes_back_otherwise_costs_its_neighbours_nothing(
    rewrite: Callable[[Talk], None], talk: Begin, renderer: Renderer
) -> None:
    """THUDM/slime#2338: a 61-token turn that had drifted zeroed a span of 28,404 tokens."""
    end = renderer.vocabulary.end_of_turn
    word = renderer.vocabulary.encode("words and ")
    long, short = [*(word * 28_404)[:28_403], end], [*(word * 61)[:60], end]
    t = await talk(ScriptedEngine(renderer, [long, short, DONE]))
    for _ in range(2):
        await t.turn()
        t.messages.append({"role": "user", "content": "Go on."})
    asked = t.messages.pop()
    rewrite(t)
    t.messages.append({**asked, "content": "And now?"})
    await t.turn()
    capture = t.session.close()
    assert [len(turn.sampled_ids) for turn in capture.turns[:2]] == [28_404, 61]
    assert owned(capture) == [28_404 + 61, len(capture.turns[2].sampled_ids)]
    first, second = capture.branches
    assert first.ids[first.mask].tolist() == long + short
    shared = len(capture.turns[0].context_ids) + 28_404
    assert second.ids[:shared].tolist() == first.ids[:shared].tolist()


async def test_a_call_that_the_echo_has_lost_is_trained_as_it_was_sampled(
    talk: Begin, renderer: Renderer
) -> None:
    """verl-project/verl#3960: tool calls cleared in the rollout made other tokens in training."""
    engine = ScriptedEngine(renderer, [LS, DONE])
    t = await talk(engine)
    message = await t.turn()
    assert message.pop("tool_calls")
    t.messages.append({"role": "user", "content": "ls says: calc.py"})
    await t.turn()
    capture = t.session.close()
    first, second = capture.branches
    assert first.ids[first.mask].tolist() == renderer.encode_assistant(LS)
    assert second.ids[second.mask].tolist() == renderer.encode_assistant(DONE)
    assert (
        "<tool_call>" not in renderer.vocabulary.decode(second.ids[~second.mask].tolist()).split("Look.")[-1]
    )
    assert [(fork.turn, fork.cause) for fork in capture.forks] == [(1, "reply_edited")]
    for branch, seen in zip(capture.branches, engine.requests, strict=True):
        assert branch.ids[: len(seen.context_ids)].tolist() == seen.context_ids.tolist()


async def test_one_rewritten_turn_neither_fails_its_rollout_nor_keeps_its_siblings_waiting(
    serve: Serve, renderer: Renderer
) -> None:
    """NVIDIA-NeMo/RL#3063: one turn that was not contiguous raised, and everyone waited for its group."""
    proxy = await serve(ScriptedEngine(renderer, [LS] * 12))

    async def roll_out(name: str, *, rewrites: bool) -> Capture:
        async with Talk.begin(proxy, rollout_id=name) as t:
            for turn in range(3):
                await t.tool_turn(f"{name}, turn {turn}")
                if rewrites and turn == 1:
                    t.messages[3]["content"] = "(output removed)"
            return t.session.close()

    captures = await asyncio.gather(*[roll_out(f"r{i}", rewrites=i == 2) for i in range(4)])
    assert [capture.stop for capture in captures] == [None] * 4
    made = batch(group(*[rollout(f"r{i}", c, float(i == 2)) for i, c in enumerate(captures)]))
    assert [s.rollout_id for s in made.samples] == ["r0", "r1", "r2", "r2", "r3"]
    assert [s.advantage for s in made.samples] == [-0.25, -0.25, 0.75, 0.75, -0.25]
    assert (made.sampled, made.masked) == (made.trained, {})


# --- the same request again ----------------------------------------------------------------------


async def test_a_request_that_was_answered_is_sampled_anew_however_often_it_comes(
    talk: Begin, renderer: Renderer
) -> None:
    """PrimeIntellect-ai/verifiers#2368: equal bodies behind a compaction got one stale reply for ever."""
    tries = [say(f"Attempt number {i}.", ("bash", {"command": f"try {i}"})) for i in range(3)]
    t = await talk(ScriptedEngine(renderer, [LS, say("A summary of what was done."), *tries]))
    await t.tool_turn()
    t.messages.append({"role": "user", "content": "Sum up."})
    await t.turn()
    t.messages[1:] = [{"role": "user", "content": "So far: A summary of what was done."}]
    said = [await _answer(t) for _ in tries]
    assert said == ["Attempt number 0.", "Attempt number 1.", "Attempt number 2."]
    capture = t.session.close()
    assert [branch.cause for branch in capture.branches] == ["start", "compaction", "resampled", "resampled"]
    sizes = [len(turn.sampled_ids) for turn in capture.turns]
    assert owned(capture) == [sizes[0] + sizes[1], *sizes[2:]]


async def _answer(t: Talk) -> str:
    status, answer = await t.post()
    assert status == 200
    return answer["choices"][0]["message"]["content"]


# --- streams -------------------------------------------------------------------------------------

TWO_CALLS = say("Both.", ("bash", {"command": "ls"}), ("bash", {"command": "pwd"}))
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Go."}], "tools": [BASH]},
    "/v1/messages": {
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "Go."}],
        "tools": [{"name": "bash", "input_schema": BASH["function"]["parameters"]}],
    },
    "/v1/responses": {"input": "Go.", "tools": [{"type": "function", **BASH["function"]}]},
}


@pytest.mark.parametrize("path", ASKED)
async def test_a_streamed_reply_with_calls_is_recorded_like_a_whole_one(
    path: str, talk: Begin, renderer: Renderer
) -> None:
    """vllm-project/vllm#27482: a stream through a tool parser lost its token ids."""
    captures: list[Capture] = []
    for stream in (True, False):
        t = await talk(ScriptedEngine(renderer, [TWO_CALLS]))
        body = {"model": "policy", "stream": stream, **ASKED[path]}
        async with t.http.post(t.url + path, json=body) as answer:
            assert answer.status == 200
            assert answer.content_type == ("text/event-stream" if stream else "application/json")
            assert "pwd" in await answer.text()
        captures.append(t.session.close())
    for capture in captures:
        assert capture.turns[0].sampled_ids.tolist() == renderer.encode_assistant(TWO_CALLS)
        assert owned(capture) == [len(capture.turns[0].sampled_ids)]
    streamed, whole = (capture.branches[0] for capture in captures)
    assert streamed.ids.tolist() == whole.ids.tolist()
    assert streamed.logprobs.tolist() == whole.logprobs.tolist()
    assert streamed.routes is not None
    assert whole.routes is not None
    assert streamed.routes.tolist() == whole.routes.tolist()


# --- what a harness adds to its prompt -----------------------------------------------------------


async def test_a_billing_hash_that_changes_with_every_request_breaks_no_prefix(
    talk: Begin, renderer: Renderer
) -> None:
    """anthropics/claude-code#68900, vllm-project/vllm#36829: `cch=` in the first system block."""
    engine = ScriptedEngine(renderer, [say("One."), say("Two."), say("Three.")])
    t = await talk(engine)
    history: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    for i in range(3):
        billing = f"x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch={i:05x};"
        system = [{"type": "text", "text": billing}, {"type": "text", "text": "You are an agent."}]
        body = {"model": "policy", "max_tokens": 99, "system": system, "messages": history}
        async with t.http.post(f"{t.url}/v1/messages", json=body) as answer:
            history += [{"role": "assistant", "content": (await answer.json())["content"]}]
        history += [{"role": "user", "content": "Go on."}]
    contexts = [request.context_ids.tolist() for request in engine.requests]
    for turn, after in zip(t.session.close().turns, contexts[1:], strict=False):
        known = [*turn.context_ids, *turn.sampled_ids]
        assert after[: len(known)] == known
    shown = renderer.vocabulary.decode(contexts[-1])
    assert "You are an agent." in shown
    assert "cch=" not in shown
