"""Replies a learning policy really gives, met by the unmodified harnesses: no token is lost to any of them."""

from __future__ import annotations

from typing import Any

import pytest

from lego_harness.types import StopReason
from tests.support.real_rollout import TOOL, Worker, conserves, finish, run_command
from tests.support.scripted_engine import say

HARNESSES = ("mini-swe-agent", "claude-code", "codex")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.parametrize(
        "worker", [(name, "bubblewrap") for name in HARNESSES], ids=HARNESSES, indirect=True
    ),
]


def with_arguments(worker: Worker, **arguments: Any) -> dict[str, Any]:
    return say("Let me see.\n", (TOOL[worker.adapter.name], arguments))


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param("", id="empty"),
        pytest.param(" \n ", id="blank"),
        pytest.param(
            'Hm.\n<tool_call>\n{"name": "bash", "arguments": {"comm\n</tool_call>', id="broken call"
        ),
        pytest.param("Let me think about it. " * 80, id="cut by length"),
    ],
)
async def test_a_reply_the_harness_cannot_use(worker: Worker, odd: str) -> None:
    harness = worker.adapter.name
    trajectory = await worker.run([run_command(harness, "ls"), say(odd), say(odd), finish(harness)])
    assert (trajectory.stop_reason, trajectory.error) == (StopReason.COMPLETED, "")
    assert len(trajectory.turns) >= 2
    assert conserves(trajectory)
    assert trajectory.branches[0].cause == "start"
    assert {branch.cause for branch in trajectory.branches[1:]} <= {"reply_dropped"}


async def test_arguments_the_harness_rewrites_or_refuses(worker: Worker) -> None:
    calls = [
        with_arguments(worker, command="cd /workspace && ls  \n\n", timeout="5000"),
        with_arguments(worker, timeout=5000.0, command="ls", unheard_of=[1, None]),
        with_arguments(worker, command="printf 'é\\t\\n'", run_in_background="false"),
        with_arguments(worker, command=5),
        with_arguments(worker),
        say("", ("NoSuchTool", {"x": "y "})),
    ]
    trajectory = await worker.run([*calls, finish(worker.adapter.name)])
    assert (trajectory.stop_reason, trajectory.error) == (StopReason.COMPLETED, "")
    assert len(trajectory.turns) == 7
    assert conserves(trajectory)


async def test_parallel_calls_are_one_turn(worker: Worker) -> None:
    both = run_command(worker.adapter.name, "sleep 0.3; echo slow", "echo fast")
    trajectory = await worker.run([both, finish(worker.adapter.name)])
    assert (trajectory.stop_reason, len(trajectory.branches)) == (StopReason.COMPLETED, 1)
    slow, fast = (m["content"] for m in trajectory.messages if m["role"] == "tool")
    assert "slow" in slow
    assert "fast" in fast
    assert conserves(trajectory)
