"""What a harness does to its history, and the branches it leaves: rewrites, side calls, sub-agents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from lego_harness.proxy.capture import Capture
from lego_harness.proxy.render import Renderer
from tests.support.conversation import Talk
from tests.support.fuzz.raw_http import request
from tests.support.scripted_engine import ScriptedEngine, route_row, say

Begin = Callable[..., Awaitable[Talk]]
LS = say("Look.", ("bash", {"command": "ls"}))
DONE = say("Done.")


def trained(capture: Capture) -> list[int]:
    """Tokens each branch owns."""
    return [int(branch.mask.sum()) for branch in capture.branches]


async def _until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0)


# --- what a harness may change -------------------------------------------------------------------


async def test_a_rewritten_echo_with_the_same_meaning_keeps_the_sampled_ids(
    talk: Begin, renderer: Renderer
) -> None:
    call = ("bash", {"timeout": "5", "command": "cd /workspace && echo 1 \n echo 2", "unused": None})
    engine = ScriptedEngine(renderer, [say("Look. \n", call), DONE])
    t = await talk(engine)
    await t.tool_turn()
    echo = t.messages[-2]
    echo["content"] = "Look."
    echo["tool_calls"][0]["function"]["arguments"] = json.dumps(
        {"command": "echo 1\n echo 2", "timeout": 5, "replace_all": False}
    )
    await t.turn()
    capture = t.session.close()
    assert capture.stop is None
    known = [*capture.turns[0].context_ids, *capture.turns[0].sampled_ids]
    assert engine.requests[1].context_ids[: len(known)].tolist() == known


async def test_a_call_may_come_back_under_an_id_that_the_harness_made(
    talk: Begin, renderer: Renderer
) -> None:
    engine = ScriptedEngine(renderer, [LS, LS, LS, DONE])
    t = await talk(engine)
    for index in range(3):
        await t.tool_turn()
        t.messages[-2]["tool_calls"][0]["id"] = t.messages[-1]["tool_call_id"] = f"call_{index}"
    await t.turn()
    capture = t.session.close()
    assert (capture.stop, capture.forks) == (None, ())
    ids = [[*turn.context_ids, *turn.sampled_ids] for turn in capture.turns]
    assert all(two[: len(one)] == one for one, two in pairwise(ids))


async def test_twins_are_told_apart_by_their_ids(talk: Begin, renderer: Renderer) -> None:
    """The same call was sampled twice for the same request; each history goes on with its own."""
    t = await talk(ScriptedEngine(renderer, [LS, LS, DONE, DONE]))
    await t.tool_turn()
    first, t.messages = t.messages, t.messages[:2]
    await t.tool_turn()
    for messages in (first, t.messages):
        assert (await t.post(messages=messages))[0] == 200
    capture = t.session.close()
    assert [(fork.turn, fork.cause) for fork in capture.forks] == [(1, "resampled")]
    sizes = [len(turn.sampled_ids) for turn in capture.turns]
    assert trained(capture) == [sizes[0] + sizes[2], sizes[1] + sizes[3]]


def _edit_system(t: Talk) -> None:
    t.messages[0] = {"role": "system", "content": "You are another."}


def _edit_call(t: Talk) -> None:
    t.messages[2]["tool_calls"][0]["function"]["arguments"] = '{"command": "rm -rf /"}'


def _edit_calls_number(t: Talk) -> None:
    t.messages[2]["tool_calls"] = []
    del t.messages[3]


def _edit_text(t: Talk) -> None:
    t.messages[2]["content"] = "Looked."


def _forge_turn(t: Talk) -> None:
    t.messages.append({"role": "assistant", "content": "I never said that."})


def _cut_history(t: Talk) -> None:
    del t.messages[1:]


def _repeat(t: Talk) -> None:
    del t.messages[2:]


def _summarise(t: Talk) -> None:
    t.messages[1:] = [{"role": "user", "content": "Summary: all is well."}]


def _change_tools(t: Talk) -> None:
    t.tools[0]["function"]["description"] = "Run anything."


def _add_nothing(t: Talk) -> None:
    del t.messages[3:]


@pytest.mark.parametrize(
    ("rewrite", "cause", "at", "words"),
    [
        (_edit_system, "history_edited", 0, "its content was"),
        (_edit_call, "reply_edited", 2, "argument 'command' was 'ls' and is 'rm -rf /'"),
        (_edit_calls_number, "reply_edited", 2, "tool calls [], expected [call_"),
        (_edit_text, "reply_edited", 2, "its text changed: at character 4"),
        (_cut_history, "history_cut", 1, ""),
        (_repeat, "resampled", 2, ""),
        (_summarise, "history_edited", 1, "its content was"),
        (_change_tools, "tools_changed", 3, "[bash], before [bash]"),
    ],
)
async def test_any_other_rewrite_begins_a_branch_at_the_first_difference(
    rewrite: Callable[[Talk], None], cause: str, at: int, words: str, talk: Begin, renderer: Renderer
) -> None:
    engine = ScriptedEngine(renderer, [LS, DONE])
    t = await talk(engine)
    await t.tool_turn()
    rewrite(t)
    await t.turn()
    capture = t.session.close()
    assert capture.stop is None
    (fork,) = capture.forks
    assert (fork.turn, fork.cause, fork.message) == (1, cause, at)
    assert words in fork.detail
    assert [branch.cause for branch in capture.branches] == ["start", cause]
    assert trained(capture) == [len(turn.sampled_ids) for turn in capture.turns]
    for turn, branch, seen in zip(capture.turns, capture.branches, engine.requests, strict=True):
        assert branch.ids.tolist() == [*seen.context_ids, *turn.sampled_ids]


@pytest.mark.parametrize("rewrite", [_forge_turn, _add_nothing])
async def test_turns_that_nobody_sampled_are_context_of_what_follows(
    rewrite: Callable[[Talk], None], talk: Begin, renderer: Renderer
) -> None:
    engine = ScriptedEngine(renderer, [LS, DONE])
    t = await talk(engine)
    await t.tool_turn()
    rewrite(t)
    await t.turn()
    capture = t.session.close()
    assert capture.forks == ()
    assert engine.requests[1].context_ids.tolist() == renderer.render(t.messages[:-1], t.tools)
    assert trained(capture) == [sum(len(turn.sampled_ids) for turn in capture.turns)]


async def test_a_turn_that_was_sampled_here_keeps_its_ids_behind_another_history(
    talk: Begin, renderer: Renderer
) -> None:
    odd = [
        *renderer.vocabulary.encode("Hi"),
        *renderer.vocabulary.encode("!"),
        renderer.vocabulary.end_of_turn,
    ]
    engine = ScriptedEngine(renderer, [odd, LS, DONE])
    t = await talk(engine)
    await t.turn()
    t.messages.append({"role": "user", "content": "Go on."})
    await t.tool_turn()
    t.messages[0] = {"role": "system", "content": "You are another."}
    await t.turn()
    capture = t.session.close()
    context = engine.requests[2].context_ids.tolist()
    first, second, _ = capture.turns
    assert context[-len(renderer.generation_prompt) :] == renderer.generation_prompt
    assert _holds(context, [*renderer.generation_prompt, *odd])
    assert _holds(context, [*renderer.generation_prompt, *second.sampled_ids])
    assert trained(capture) == [
        len(first.sampled_ids) + len(second.sampled_ids),
        len(capture.turns[2].sampled_ids),
    ]


async def test_turns_that_said_the_same_keep_their_ids_apart(talk: Begin, renderer: Renderer) -> None:
    thoughts = [("one", "Ok."), ("two", "Ok."), ("three", ""), ("four", "")]
    replies = [{**say(text), "reasoning_content": thought} for thought, text in thoughts]
    engine = ScriptedEngine(renderer, [*replies, say("Ok.", ("bash", {"command": "ls"})), DONE])
    t = await talk(engine)
    for _ in replies:
        (await t.turn()).pop("reasoning_content")
        t.messages.append({"role": "user", "content": f"Go on with {len(t.messages)}."})
    await t.tool_turn()
    t.messages[0] = {"role": "system", "content": "You are another."}
    await t.turn()
    capture = t.session.close()
    context = engine.requests[-1].context_ids.tolist()
    for turn in capture.turns[:-1]:
        assert _holds(context, [*renderer.generation_prompt, *turn.sampled_ids])


async def test_what_was_changed_in_a_long_message_is_told(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [LS, DONE]))
    long = "You are an agent. " * 50
    t.messages[0] = {"role": "system", "content": f"{long}It is 10:01."}
    await t.tool_turn()
    t.messages[0] = {"role": "system", "content": f"{long}It is 10:02. Hurry."}
    await t.turn()
    (fork,) = t.session.close().forks
    assert fork.detail == f"its content was '1.' and is '2. Hurry.' from character {len(long) + 10} on"


def _holds(ids: list[int], part: list[int]) -> bool:
    return any(ids[i : i + len(part)] == part for i in range(len(ids)))


# --- a reply that the harness drops --------------------------------------------------------------


async def test_a_dropped_reply_stays_on_the_branch_it_was_sampled_on(talk: Begin, renderer: Renderer) -> None:
    engine = ScriptedEngine(renderer, [LS, say("No call."), say("Again none."), LS, DONE])
    t = await talk(engine)
    await t.tool_turn("calc.py")
    for _ in range(2):
        await t.post()
        t.messages.append({"role": "user", "content": "Every reply needs a call."})
    await t.tool_turn()
    await t.turn()
    capture = t.session.close()
    assert capture.stop is None
    assert engine.requests[3].context_ids.tolist() == renderer.render(t.messages[:6], t.tools)
    sizes = [len(turn.sampled_ids) for turn in capture.turns]
    assert trained(capture) == [sizes[0] + sizes[1], sizes[2], sizes[3] + sizes[4]]
    assert [(fork.turn, fork.cause) for fork in capture.forks] == [(2, "reply_dropped"), (3, "reply_dropped")]
    for branch, turn in zip(capture.branches, (capture.turns[i] for i in (1, 2, 4)), strict=True):
        assert branch.ids.tolist() == [*turn.context_ids, *turn.sampled_ids]
    shown = [(m["content"], m.get("branch", 0)) for m in capture.messages]
    assert shown[4:8] == [
        ("No call.", 0),
        ("Every reply needs a call.", 1),
        ("Again none.", 1),
        ("Every reply needs a call.", 2),
    ]


async def test_routes_of_a_fork_stay_with_the_pass_that_made_them(talk: Begin, renderer: Renderer) -> None:
    engine = ScriptedEngine(renderer, [LS, say("No call."), DONE])
    t = await talk(engine)
    await t.tool_turn()
    await t.post()
    t.messages.append({"role": "user", "content": "Every reply needs a call."})
    await t.turn()
    capture = t.session.close()
    shared = len(capture.turns[0].context_ids) + len(capture.turns[0].sampled_ids) - 1
    for branch, call in zip(capture.branches, (1, 2), strict=True):
        assert branch.routes is not None
        for position in range(len(branch.ids) - 1):
            assert branch.routes[position].tolist() == route_row(0 if position < shared else call, position)


async def test_a_dropped_first_reply_forks_at_the_root(talk: Begin, renderer: Renderer) -> None:
    engine = ScriptedEngine(renderer, [[renderer.vocabulary.end_of_turn], DONE])
    t = await talk(engine)
    await t.post()
    t.messages[-1] = {"role": "user", "content": t.messages[-1]["content"] + "\nYou said nothing."}
    await t.turn()
    capture = t.session.close()
    assert trained(capture) == [1, len(capture.turns[1].sampled_ids)]
    assert [fork.cause for fork in capture.forks] == ["reply_dropped"]
    assert engine.requests[1].context_ids.tolist() == renderer.render(t.messages[:2], t.tools)


# --- side calls, compaction, sub-agents ----------------------------------------------------------


async def test_a_title_is_a_side_call_and_not_trained(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [say("Calc repaired"), LS, DONE]))
    title = [{"role": "user", "content": "A title for: Repair calc.py."}]
    assert (await t.post(messages=title, tools=None))[0] == 200
    await t.tool_turn()
    await t.turn()
    capture = t.session.close()
    assert [turn.side_call for turn in capture.turns] == ["title", "", ""]
    assert capture.turns[0].masked == "side_call:title"
    assert [branch.cause for branch in capture.branches] == ["side_call", "start"]
    assert trained(capture) == [0, sum(len(turn.sampled_ids) for turn in capture.turns[1:])]
    assert capture.forks == ()
    assert not capture.branches[0].logprobs.any()


async def test_a_compaction_summary_is_trained_and_the_new_history_is_a_branch(
    talk: Begin, renderer: Renderer
) -> None:
    summary = "<summary>\nThe sign in calc.py is wrong.\n</summary>"
    t = await talk(ScriptedEngine(renderer, [LS, say(summary), DONE]))
    await t.tool_turn()
    dump = [{"role": "user", "content": "Sum up: ls, ok"}]
    assert (await t.post(messages=dump, tools=[]))[0] == 200
    t.messages[1:] = [{"role": "user", "content": "So far: The sign in calc.py is wrong."}, *t.messages[2:]]
    await t.turn()
    capture = t.session.close()
    assert [turn.side_call for turn in capture.turns] == ["", "compaction", ""]
    assert [branch.cause for branch in capture.branches] == ["start", "side_call", "compaction"]
    assert [(fork.cause, fork.message) for fork in capture.forks] == [("compaction", 1)]
    assert trained(capture) == [len(turn.sampled_ids) for turn in capture.turns]
    kept = [*renderer.generation_prompt, *capture.turns[0].sampled_ids]
    assert _holds(capture.turns[2].context_ids.tolist(), kept)


@pytest.mark.parametrize(
    ("main", "sub", "parent"),
    [
        ({"x-session-id": "a"}, {"x-session-id": "b", "x-parent-session-id": "a"}, "a"),
        ({"thread-id": "a"}, {"thread-id": "b", "x-codex-parent-thread-id": "a"}, "a"),
        ({"x-litellm-session-id": "a"}, {"x-litellm-session-id": "b"}, ""),
        ({}, {"x-claude-code-agent-id": "b"}, ""),
    ],
)
async def test_sub_agents_are_conversations_of_their_own_and_trained(
    main: dict[str, str], sub: dict[str, str], parent: str, talk: Begin, renderer: Renderer
) -> None:
    t = await talk(ScriptedEngine(renderer, [LS, LS, DONE, DONE]))
    t.headers = main
    await t.tool_turn()
    mine = t.messages
    t.headers, t.messages = sub, [{"role": "user", "content": "Look around."}]
    await t.tool_turn()
    await t.turn()
    t.headers, t.messages = main, mine
    await t.turn()
    capture = t.session.close()
    assert [turn.thread for turn in capture.turns] == [*main.values(), "b", "b", *main.values()][
        -4:
    ] or not main
    assert [(branch.cause, branch.parent) for branch in capture.branches] == [
        ("start", ""),
        ("sub_agent", parent),
    ]
    sizes = [len(turn.sampled_ids) for turn in capture.turns]
    assert trained(capture) == [sizes[0] + sizes[3], sizes[1] + sizes[2]]
    assert capture.forks == ()


@pytest.mark.parametrize(
    ("main", "sub"),
    [
        ({"thread-id": "a"}, {"thread-id": "b", "x-codex-parent-thread-id": "a"}),
        ({"x-session-id": "a"}, {"x-session-id": "b", "x-parent-session-id": "a"}),
        ({}, {"x-claude-code-agent-id": "b"}),
    ],
)
@pytest.mark.parametrize("is_parent_first", [True, False])
async def test_a_sub_agent_that_is_given_its_parents_history_is_a_branch_of_its_own(
    main: dict[str, str], sub: dict[str, str], is_parent_first: bool, talk: Begin, renderer: Renderer
) -> None:
    engine = ScriptedEngine(renderer, [LS, LS, LS, DONE, DONE])
    t = await talk(engine)
    t.headers = main
    await t.tool_turn("The agent was started.")
    task = {"role": "user", "content": "You are the agent. Look around."}
    both = [(main, t.messages), (sub, [*t.messages, task])]
    for t.headers, t.messages in both if is_parent_first else reversed(both):
        await t.tool_turn()
    for t.headers, t.messages in both:
        await t.turn()
    capture = t.session.close()
    parent = next(iter(main.values()), "")
    assert (capture.stop, capture.forks) == (None, ())
    assert [(branch.cause, branch.thread, branch.parent) for branch in capture.branches] == [
        ("start", parent, ""),
        ("sub_agent", "b", parent),
    ]
    first = capture.turns[0]
    known = [*first.context_ids, *first.sampled_ids]
    for branch in capture.branches:
        own = [len(turn.sampled_ids) for turn in capture.turns if turn.thread == branch.thread]
        assert branch.mask.sum() == sum(own)
        assert branch.ids[: len(known)].tolist() == known
    assert [request.routes_from for request in engine.requests[:3]] == [0, len(known) - 1, len(known) - 1]


async def test_a_conversations_name_may_be_any_bytes(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [LS]))
    body = json.dumps({"messages": t.messages}).encode()
    raw = request("POST", t.session.endpoint.path + "/v1/chat/completions", body, X_Session_Id="caf~")
    reader, writer = await asyncio.open_unix_connection(t.session.endpoint.socket)
    writer.write(raw.replace(b"caf~", b"caf\xe9"))
    assert b" 200 " in await reader.readline()
    writer.close()
    (branch,) = t.session.close().branches
    assert branch.thread == "caf\ufffd"


async def test_sub_agents_are_served_side_by_side(talk: Begin, renderer: Renderer) -> None:
    gate = asyncio.Event()
    engine = ScriptedEngine(renderer, [LS, LS], gate=gate)
    t = await talk(engine)
    calls = [
        asyncio.create_task(
            t.post(messages=[{"role": "user", "content": name}], headers={"x-session-id": name})
        )
        for name in ("a", "b")
    ]
    await asyncio.wait_for(_until(lambda: len(engine.requests) == 2), 5)
    gate.set()
    assert [status for status, _ in await asyncio.gather(*calls)] == [200, 200]
    capture = t.session.close()
    assert sorted(turn.thread for turn in capture.turns) == ["a", "b"]
    assert sorted(branch.cause for branch in capture.branches) == ["start", "sub_agent"]
    assert len({request.sampling.seed for request in engine.requests}) == 2


async def test_two_conversations_may_go_on_with_the_same_one(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [LS, LS, DONE]))
    t.headers = {"x-session-id": "a"}
    await t.tool_turn()
    t.headers = {"x-session-id": "b"}
    await t.turn()
    t.messages.pop()
    t.headers = {"x-session-id": "a"}
    t.messages.append({"role": "user", "content": "And?"})
    await t.turn()
    capture = t.session.close()
    assert (capture.stop, [branch.cause for branch in capture.branches]) == (
        None,
        ["start", "history_edited"],
    )
    first, second, third = capture.turns
    known = [*first.context_ids, *first.sampled_ids]
    assert third.context_ids[: len(known)].tolist() == known
    assert trained(capture) == [len(first.sampled_ids) + len(second.sampled_ids), len(third.sampled_ids)]
