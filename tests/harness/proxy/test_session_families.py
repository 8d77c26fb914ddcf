"""Sessions over policies of every family: typed arguments out, sampled ids back, thoughts kept."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from lego_harness.proxy.render import Renderer
from tests.support.conversation import Talk
from tests.support.families import ALL, load_families
from tests.support.scripted_engine import ScriptedEngine, say

Begin = Callable[..., Awaitable[Talk]]
CALL = {"command": "echo '</parameter> <|im_end|>'\n", "timeout": 2.5}
all_families = pytest.mark.parametrize("name", ALL)


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Renderer]:
    return load_families(tmp_path_factory.mktemp("families"))


def thinking(reply: dict[str, Any], thought: str) -> dict[str, Any]:
    return {**reply, "reasoning_content": thought}


@all_families
async def test_a_conversation_grows_by_pieces(talk: Begin, families: dict[str, Renderer], name: str) -> None:
    renderer = families[name]
    calls = thinking(say("Looking.", ("bash", CALL), ("bash", {"command": "ls"})), "First, look.")
    steps = [calls, thinking(say("Done."), "Now rest."), thinking(say("Again."), "Hm.")]
    engine = ScriptedEngine(renderer, steps)
    t = await talk(engine)

    message = await t.turn()
    assert [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]] == [
        CALL,
        {"command": "ls"},
    ]
    assert (message["reasoning_content"], message["content"]) == ("First, look.", "Looking.")
    t.messages += [
        {"role": "tool", "tool_call_id": call["id"], "content": f"out {i}"}
        for i, call in enumerate(message["tool_calls"])
    ]
    assert (await t.turn())["content"] == "Done."
    t.messages.append({"role": "user", "content": "Once more."})
    await t.turn()

    (branch,) = t.session.close().branches
    added = [t.messages[3:5], t.messages[6:7]]
    prompt = renderer.generation_prompt
    ids = renderer.render_opening(t.messages[:2], t.tools) + prompt
    for reply, more in zip(steps, [*added, None], strict=True):
        ids += renderer.encode_assistant(reply) + (renderer.render_delta(more) + prompt if more else [])
    assert branch.ids.tolist() == ids
    assert renderer.vocabulary.decode(ids).count("First, look.") == 1, "an old thought stays in the context"


@all_families
async def test_odd_ids_stay_as_they_were_sampled(
    talk: Begin, families: dict[str, Renderer], name: str
) -> None:
    """Ids that no encoding of their text gives, blanks that templates trim, a thought never closed."""
    renderer = families[name]
    newline, end = renderer.vocabulary.encode("\n"), renderer.vocabulary.end_of_turn
    opening = [] if renderer.traits.thought_is_open else renderer.vocabulary.encode("<think>")
    odd = [
        [*newline, *newline, *renderer.vocabulary.encode(" Yes. "), *newline, *newline, end],
        [*opening, *newline, *newline, *renderer.vocabulary.encode(" never closed "), end],
        [end],
    ]
    engine = ScriptedEngine(renderer, odd)
    t = await talk(engine)
    for sampled in odd:
        await t.turn()
        t.messages.append({"role": "user", "content": f"Go on after {len(sampled)}."})
    for before, (request, sampled) in pairwise(zip(engine.requests, odd, strict=True)):
        known = [*before[0].context_ids.tolist(), *before[1]]
        assert request.context_ids.tolist()[: len(known)] == known, sampled
