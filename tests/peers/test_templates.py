"""What a chat template would do to history is not done to what was sampled."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.capture import Capture
from lego_harness.proxy.render import Renderer
from tests.support.conversation import Talk
from tests.support.families import ALL
from tests.support.graded import batch, group, rollout
from tests.support.scripted_engine import ScriptedEngine, say

Begin = Callable[[ScriptedEngine], Awaitable[Talk]]
Serve = Callable[[ScriptedEngine], Awaitable[CaptureProxy]]
FORGETFUL = ["qwen3", "qwen3-thinking", "qwen3.5", "qwen3.6"]
"""Families whose templates drop the thoughts of older turns."""
CALL = ("bash", {"command": "ls"})


def thinking(content: str, thought: str, *calls: Any) -> dict[str, Any]:
    return {**say(content, *calls), "reasoning_content": thought}


THREE = [thinking(f"Answer {i}.", f"Thought {i}.") for i in range(3)]


async def three_turns(t: Talk) -> Capture:
    for i in range(3):
        await t.turn()
        t.messages.append({"role": "user", "content": f"And {i}?"})
    return t.session.close()


@pytest.mark.parametrize("name", FORGETFUL)
async def test_a_rollout_whose_template_drops_old_thoughts_is_one_row(
    name: str, serve: Serve, families: dict[str, Renderer]
) -> None:
    """THUDM/slime#2288: a re-rendering without old thoughts made 64 rows of 8 rollouts, 1.83M tokens."""
    proxy = await serve(ScriptedEngine(families[name], THREE * 8))
    captures: list[Capture] = []
    for i in range(8):
        async with Talk.begin(proxy, rollout_id=f"r{i}") as t:
            captures.append(await three_turns(t))
    made = batch(group(*[rollout(f"r{i}", c, float(i % 2)) for i, c in enumerate(captures)]))
    assert [s.rollout_id for s in made.samples] == [f"r{i}" for i in range(8)]
    last = [capture.turns[-1] for capture in captures]
    assert [len(s.ids) for s in made.samples] == [len(t.context_ids) + len(t.sampled_ids) for t in last]


@pytest.mark.parametrize("name", ALL)
async def test_the_mask_covers_the_turns_and_nothing_else(
    name: str, talk: Begin, families: dict[str, Renderer]
) -> None:
    """NVIDIA-NeMo/RL#1903, NVIDIA-NeMo/Automodel#3024: masks sliced by length taught the wrong tokens."""
    renderer = families[name]
    capture = await three_turns(await talk(ScriptedEngine(renderer, THREE)))
    (branch,) = capture.branches
    edges = np.flatnonzero(np.diff(branch.mask.astype(int), prepend=0, append=0))
    spans = [branch.ids[start:end].tolist() for start, end in edges.reshape(-1, 2)]
    assert spans == [renderer.encode_assistant(reply) for reply in THREE]
    for i, span in enumerate(spans):
        assert f"Thought {i}." in renderer.vocabulary.decode(span)
        assert f"Answer {i}.<|im_end|>" in renderer.vocabulary.decode(span)


def whole(message: dict[str, Any]) -> None:
    """As it was."""


def thought_left_out(message: dict[str, Any]) -> None:
    del message["reasoning_content"]


def thought_null(message: dict[str, Any]) -> None:
    message["reasoning_content"] = None


def thought_empty(message: dict[str, Any]) -> None:
    message["reasoning_content"] = ""


def thought_renamed(message: dict[str, Any]) -> None:
    message["reasoning"] = message.pop("reasoning_content")


def text_as_parts(message: dict[str, Any]) -> None:
    message["content"] = [{"type": "text", "text": message["content"]}]


def text_trimmed(message: dict[str, Any]) -> None:
    message["content"] = message["content"].strip()


def arguments_reordered(message: dict[str, Any]) -> None:
    for call in message.get("tool_calls", []):
        arguments = json.loads(call["function"]["arguments"])
        call["function"]["arguments"] = json.dumps(dict(reversed(arguments.items())), indent=1)


@pytest.mark.parametrize(
    "echo",
    [
        whole,
        thought_left_out,
        thought_null,
        thought_empty,
        thought_renamed,
        text_as_parts,
        text_trimmed,
        arguments_reordered,
    ],
)
@pytest.mark.parametrize("name", FORGETFUL)
async def test_a_thought_that_the_echo_leaves_out_stays_in_the_context(
    echo: Callable[[dict[str, Any]], None], name: str, talk: Begin, families: dict[str, Renderer]
) -> None:
    """THUDM/slime#2335: clients that omit reasoning on echo."""
    renderer = families[name]
    call = ("bash", {"command": "ls", "timeout": 5})
    steps = [thinking("I look. ", "First.", call), thinking("I see.", "Then."), say("Done.")]
    engine = ScriptedEngine(renderer, steps)
    t = await talk(engine)
    echo(await t.turn())
    t.result("calc.py")
    echo(await t.turn())
    t.messages.append({"role": "user", "content": "And now?"})
    await t.turn()
    capture = t.session.close()
    (branch,) = capture.branches
    assert capture.forks == ()
    assert branch.ids[branch.mask].tolist() == [
        token for reply in steps for token in renderer.encode_assistant(reply)
    ]
    seen = renderer.vocabulary.decode(engine.requests[-1].context_ids.tolist())
    assert (seen.count("First."), seen.count("Then.")) == (1, 1)
