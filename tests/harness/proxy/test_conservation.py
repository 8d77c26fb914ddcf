"""The laws of capture over any conversation: tokens are conserved, and contexts are what was sent."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_harness.adapters.base import Endpoint
from lego_harness.proxy.capture import Capture
from lego_harness.proxy.dialects.base import Dialect
from lego_harness.proxy.dialects.chat import ChatDialect
from lego_harness.proxy.dialects.messages import MessagesDialect
from lego_harness.proxy.dialects.reader import Reader
from lego_harness.proxy.dialects.responses import ResponsesDialect
from lego_harness.proxy.render import Renderer
from lego_harness.proxy.route_log import RouteLog
from lego_harness.proxy.session import Session
from lego_harness.types import Budget, Sampling, Turn
from tests.support.checkpoint import VOCAB_SIZE, write_checkpoint
from tests.support.conversation import BASH
from tests.support.scripted_engine import ScriptedEngine, route_rows, say

TEXT = st.text(max_size=12) | st.sampled_from(["<|im_end|>", "</tool_call>", "\n\n", " x ", ""])
SAMPLED = st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=12)
SAID = TEXT.filter(lambda text: text.strip() == text)
"""Text that reads back as it was written: line breaks before a call only separate it."""
MESSAGE = st.builds(say, SAID, st.tuples(st.just("bash"), st.fixed_dictionaries({"command": TEXT})))
TWO_CALLS = st.builds(
    say,
    SAID,
    st.tuples(st.just("bash"), st.fixed_dictionaries({"command": TEXT})),
    st.tuples(st.just("bash"), st.fixed_dictionaries({"command": TEXT, "timeout": st.integers(0, 9)})),
)
DIALECTS = [ChatDialect(), MessagesDialect(), ResponsesDialect()]
Then = Literal["keep", "drop", "lose", "cancel"]
STEP = st.tuples(
    MESSAGE | TWO_CALLS | st.tuples(SAMPLED, st.booleans()),
    st.sampled_from(["keep", "keep", "keep", "drop", "lose", "cancel"]),
    TEXT,
)


@pytest.fixture(scope="module")
def same_renderer(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return Renderer.load(write_checkpoint(tmp_path_factory.mktemp("model")), max_model_len=100_000)


class Harness:
    """Keeps history in its dialect's wire form, as real ones do."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.history: list[dict[str, Any]] = [{"role": "user", "content": "Begin."}]
        self.reader = Reader()

    def request(self) -> Any:
        name, schema = BASH["function"]["name"], BASH["function"]["parameters"]
        offered = {
            "chat": BASH,
            "messages": {"name": name, "input_schema": schema},
            "responses": {"type": "function", "name": name, "parameters": schema},
        }
        body = {self.dialect.grows: self.history, "tools": [offered[self.dialect.name]]}
        return self.reader.read(self.dialect, json.dumps(body).encode())

    def keep(self, reply: Any, text: str) -> None:
        wire = self.dialect.unfold(reply)
        getattr(self, f"_keep_{self.dialect.name}")(wire, text)

    def _keep_chat(self, wire: Any, text: str) -> None:
        message = wire["choices"][0]["message"]
        calls = [call["id"] for call in message.get("tool_calls", [])]
        results = [{"role": "tool", "tool_call_id": call, "content": text} for call in reversed(calls)]
        self.history += [message, *(results or [{"role": "user", "content": text or "?"}])]

    def _keep_messages(self, wire: Any, text: str) -> None:
        calls = [block["id"] for block in wire["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call, "content": text} for call in reversed(calls)]
        said = {"role": "assistant", "content": wire["content"]}
        self.history += [said, {"role": "user", "content": results or (text or "?")}]

    def _keep_responses(self, wire: Any, text: str) -> None:
        calls = [item["call_id"] for item in wire["output"] if item["type"] == "function_call"]
        results = [
            {"type": "function_call_output", "call_id": call, "output": text} for call in reversed(calls)
        ]
        self.history += [*wire["output"], *(results or [{"role": "user", "content": text or "?"}])]

    def complain(self) -> None:
        self.history.append({"role": "user", "content": "I could not read that."})


def open_session(engine: ScriptedEngine, max_tokens: int, folder: Path) -> Session:
    return Session(
        rollout_id="r",
        endpoint=Endpoint(host_url="", socket=Path(), path="", model="policy"),
        engine=engine,
        renderer=engine.renderer,
        sampling=Sampling(seed=1, max_tokens=max_tokens),
        budget=Budget(max_turns=100, max_tokens=10**6),
        route_log=RouteLog(folder / "routes"),
        on_close=lambda: None,
    )


def scripted(renderer: Renderer, step: Any) -> Any:
    if not isinstance(step, tuple):
        return step
    ids, is_ended = step
    body = [token for token in ids if token not in renderer.vocabulary.stop_ids]
    return [*body, renderer.vocabulary.end_of_turn] if is_ended or not body else body


async def converse(
    engine: ScriptedEngine, harness: Harness, steps: list[tuple[Any, Then, str]], max_tokens: int = 50
) -> Capture:
    with TemporaryDirectory() as folder:
        session = open_session(engine, max_tokens, Path(folder))
        for _, then, text in steps:
            await turn(session, engine, harness, then, text)
        return session.close()


async def turn(session: Session, engine: ScriptedEngine, harness: Harness, then: Then, text: str) -> None:
    request = harness.request()
    if then == "cancel":
        engine.started.clear()
        call = asyncio.create_task(session.answer(request))
        await asyncio.wait_for(engine.started.wait(), 5)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
    reply = await session.answer(request)
    if then == "lose":
        assert await session.answer(request) is reply
    session.delivered(request)
    if then == "drop":
        harness.complain()
    else:
        harness.keep(reply, text)


@settings(max_examples=60)
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
@given(steps=st.lists(STEP, min_size=1, max_size=7))
def test_every_sampled_token_is_owned_once_behind_the_context_it_was_sampled_from(
    same_renderer: Renderer, dialect: Dialect, steps: list[tuple[Any, Then, str]]
) -> None:
    engine = CancellableEngine(same_renderer, [scripted(same_renderer, step) for step, _, _ in steps])
    engine.cancelled_at = {i for i, (_, then, _) in enumerate(steps) if then == "cancel"}
    capture = asyncio.run(converse(engine, Harness(dialect), steps))
    assert (capture.stop, capture.error) == (None, "")
    assert len(capture.turns) == len(steps)
    assert sum(int(branch.mask.sum()) for branch in capture.branches) == sum(
        len(turn.sampled_ids) for turn in capture.turns
    )
    for turn, seen in zip(capture.turns, engine.answered, strict=True):
        assert np.array_equal(turn.context_ids, seen.context_ids)
        assert sum(owns(branch, turn) for branch in capture.branches) == 1
    assert len(capture.branches) == 1 + sum(then == "drop" for _, then, _ in steps[:-1])
    assert len(capture.forks) == len(capture.branches) - 1
    for branch in capture.branches:
        assert routes_are_from_first_passes(branch, capture.turns)


class CancellableEngine(ScriptedEngine):
    """Hangs at the calls a harness gives up on, and answers the same call the second time."""

    cancelled_at: set[int]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.answered: list[Any] = []

    async def generate(self, request: Any) -> Any:
        if len(self.answered) in self.cancelled_at:
            self.cancelled_at.discard(len(self.answered))
            self.started.set()
            await asyncio.Event().wait()
        generation = await super().generate(request)
        self.answered.append(request)
        return generation


def owns(branch: Any, turn: Turn) -> bool:
    start, end = len(turn.context_ids), len(turn.context_ids) + len(turn.sampled_ids)
    return bool(
        len(branch.ids) >= end
        and branch.mask[start:end].all()
        and np.array_equal(branch.ids[:start], turn.context_ids)
        and np.array_equal(branch.ids[start:end], turn.sampled_ids)
        and np.array_equal(branch.logprobs[start:end], turn.logprobs)
        and (branch.versions[start:end] == turn.policy_version).all()
    )


def routes_are_from_first_passes(branch: Any, turns: tuple[Turn, ...]) -> bool:
    """Each row names the call of a turn on this branch that was the first to pass over it."""
    on_path = [
        turn
        for turn in turns
        if np.array_equal(branch.ids[: len(turn.context_ids)], turn.context_ids)
        and np.array_equal(branch.ids[len(turn.context_ids) :][: len(turn.sampled_ids)], turn.sampled_ids)
    ]
    first_pass = np.full(len(branch.ids), -1)
    for turn in on_path:
        first_pass[turn.routes_from : len(turn.context_ids) + len(turn.sampled_ids) - 1] = turn.index
    positions = np.arange(len(branch.ids) - 1)
    expected = route_rows(first_pass[:-1], positions)
    return bool((branch.routes[:-1] == expected).all() and (branch.routes[-1] == -1).all())


@settings(max_examples=60)
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
@given(steps=st.lists(st.tuples(MESSAGE | TWO_CALLS, st.just("keep"), TEXT), min_size=1, max_size=6))
def test_without_rewrites_the_engine_sees_the_full_rendering(
    same_renderer: Renderer, dialect: Dialect, steps: list[tuple[Any, Then, str]]
) -> None:
    engine = CancellableEngine(same_renderer, [step for step, _, _ in steps])
    engine.cancelled_at = set()
    harness = Harness(dialect)
    capture = asyncio.run(converse(engine, harness, steps, max_tokens=1000))
    last = engine.answered[-1].context_ids.tolist()
    assert last == same_renderer.render(capture.messages[:-1], harness.request().tools)
