"""The scripted model: whom it takes a call to be from, and what it says to them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from lego_harness.errors import UsageError
from lego_harness.proxy.render import Renderer
from lego_harness.tasks.synth import generate
from lego_harness.types import GenerateRequest, Sampling
from lego_harness.wire.actor import Actor, who_asks
from lego_harness.wire.scenarios import SCENARIOS, prompt_of, script_of
from lego_harness.wire.voices import VOICES, voice_of
from tests.support.recordings import TOOLS

SYNTH = next(generate("train", seed=0))
TASK = {"role": "user", "content": SYNTH.instruction}


def context(renderer: Renderer, *messages: dict[str, Any], tools: Any = TOOLS) -> GenerateRequest:
    ids = np.array(renderer.render(messages, tools), np.int32)
    return GenerateRequest(request_id="r", context_ids=ids, sampling=Sampling(), stop_ids=())


def asks(renderer: Renderer, *messages: dict[str, Any], tools: Any = TOOLS) -> str:
    return who_asks(
        renderer.vocabulary.decode(context(renderer, *messages, tools=tools).context_ids.tolist())
    )


def test_who_asks_is_told_from_what_is_shown(renderer: Renderer) -> None:
    system = {"role": "system", "content": "You are an agent."}
    agent = {"role": "user", "content": f"<reminder>Hm.</reminder>\n{prompt_of('b')}"}
    text_only = {"role": "user", "content": "ok\nCRITICAL: Respond with TEXT ONLY"}
    events = {"role": "user", "content": "Write a summary of: …"}
    reply = {"role": "assistant", "content": prompt_of("a")}
    assert asks(renderer, system, TASK) == "main"
    assert asks(renderer, system, TASK, reply, TASK) == "main"
    assert asks(renderer, system, agent) == "sub:b"
    assert asks(renderer, system, TASK, reply, text_only) == "compact"
    assert asks(renderer, events, tools=[]) == "compact"
    assert asks(renderer, system, TASK, tools=[]) == "side"


@pytest.mark.parametrize("harness", VOICES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_line_is_said_once_so_that_a_reply_tells_its_step(
    renderer: Renderer, harness: str, scenario: str
) -> None:
    try:
        script = script_of(scenario, harness, voice_of(harness), SYNTH)
    except UsageError:
        assert harness == "mini-swe-agent"
        assert scenario in ("subagent", "compaction")
        return
    said = [json.dumps(line.message) for lines in script.values() for line in lines]
    assert len(set(said)) == len(said)
    actor = Actor(script, renderer)
    lines = [actor.directs(context(renderer, TASK)) for _ in script["main"]]
    for step in reversed(range(len(lines))):
        spoken = actor.claim(lines[step].message)
        assert spoken is not None
        assert (spoken.who, spoken.step) == ("main", step)
        assert actor.claim(lines[step].message) is None


def test_what_cannot_be_recorded_is_told() -> None:
    for harness, scenario, told in (
        ("mini-swe-agent", "subagent", "has no sub-agents"),
        ("mini-swe-agent", "compaction", "never compacts"),
        ("codex", "nothing", "expected one of plain, parallel"),
    ):
        with pytest.raises(UsageError, match=told):
            script_of(scenario, harness, voice_of(harness), SYNTH)
    with pytest.raises(UsageError, match="expected one of: mini-swe-agent"):
        voice_of("vim")
