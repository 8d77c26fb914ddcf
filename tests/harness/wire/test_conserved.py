"""Whatever a recording holds, no token is lost: any order of turns, errors, cuts, losses and rewrites."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lego_harness.proxy.render import Renderer
from lego_harness.wire.outcome import is_conserved, outcome
from lego_harness.wire.recording import read_recording
from lego_harness.wire.replay import replay
from tests.support.recordings import TOOLS, Chat, Claude, Codex, Tape, failure


class Scene:
    """A conversation, a side call and a sub-agent, and what may happen to them."""

    def __init__(self, tape: Tape, harness: type[Chat]) -> None:
        self.talk = harness(tape, x_session_id="main")
        self.first = int(harness is Chat)
        """Index of the task in the messages."""
        self.aside = Chat(tape, system="You write titles.", x_session_id="main")
        self.aside.tools = []
        self.agent = Chat(tape, task="Look around.", x_session_id="agent", x_parent_session_id="main")

    def tool(self) -> None:
        self.talk.tool_turn()

    def text(self) -> None:
        self.talk.turn("I see the failing test now.")
        self.talk.say("Go on.")

    def error(self) -> None:
        self.talk.post(failure(529))

    def gone(self) -> None:
        self.talk.post(None)

    def lost(self) -> None:
        self.talk.post(self.talk.broken(self.talk.message("I will", "rm")))

    def cut(self) -> None:
        self.talk.turn("This is cut", finish="length")
        self.talk.say("Resume.")

    def again(self) -> None:
        self.talk.post(self.talk.reply(self.talk.message("One of two.")))

    def rewind(self) -> None:
        del self.talk.messages[self.first + 1 :]

    def edit(self) -> None:
        self.talk.messages[self.first] = {"role": "user", "content": f"Task {len(self.talk.tape.lines)}."}

    def tools(self) -> None:
        self.talk.tools = self.talk.tools[:1] if len(self.talk.tools) > 1 else copy.deepcopy(TOOLS)

    def title(self) -> None:
        self.aside.post(self.aside.reply(self.aside.message("Repair of add")))

    def sub_agent(self) -> None:
        self.agent.tool_turn()

    def forked(self) -> None:
        """A sub-agent that is given the whole history; its parent goes on as well."""
        names = {"x_session_id": f"fork{len(self.talk.tape.lines)}", "x_parent_session_id": "main"}
        agent = copy.copy(self.talk)
        agent.headers, agent.messages = names, list(self.talk.messages)
        agent.say("You are the agent.")
        agent.tool_turn()

    def compact(self) -> None:
        summary = "add() in calc.py subtracts; fix the operator."
        self.talk.turn(summary)
        self.talk.messages = [
            *self.talk.messages[: self.first],
            {"role": "user", "content": f"So: {summary}"},
        ]


ACTS = [name for name in vars(Scene) if not name.startswith("_")]


@pytest.mark.parametrize("harness", [Chat, Claude, Codex])
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(acts=st.lists(st.sampled_from(ACTS), min_size=1, max_size=9))
async def test_every_token_is_trained_or_masked_for_a_reason(
    renderer: Renderer, tmp_path: Path, harness: type[Chat], acts: list[str]
) -> None:
    tape = Tape()
    scene = Scene(tape, harness)
    for name in acts:
        getattr(scene, name)()
    scene.tool()
    (replayed,) = await replay(read_recording(tape.write(tmp_path)), renderer)
    shown = outcome(replayed)
    assert is_conserved(replayed)
    assert shown["errors"] == []
    assert shown["trained"] == sum(branch["tokens_trained"] for branch in shown["branches"])
    assert [branch["cause"] for branch in shown["branches"]].count("start") <= 1
    for turn in replayed.capture.turns:
        sampled = list(turn.sampled_ids)
        spans = [
            branch.mask[len(turn.context_ids) :][: len(sampled)].all()
            and list(branch.ids[len(turn.context_ids) :][: len(sampled)]) == sampled
            for branch in replayed.capture.branches
            if len(branch.ids) >= len(turn.context_ids) + len(sampled)
        ]
        assert turn.masked or any(spans)
